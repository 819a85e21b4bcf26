"""The datapaths between two hosts, compared with other ways to connect two hosts: `opavnic bench datapath`."""
