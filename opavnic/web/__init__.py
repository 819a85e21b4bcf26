"""A running lab in a browser: a process of its own, a client of the lab's control socket.

scene     what there is to see of a lab at one moment, as plain values; sans-IO
charts    a scene as options of ECharts; sans-IO
watch     asks the lab, once for all pages that are open, and not at all while none is
guard     access: a token, one origin
pages/    what a page shows
server    puts them together and serves

Needs the extra opavnic[web]; nothing else imports this package.
"""
