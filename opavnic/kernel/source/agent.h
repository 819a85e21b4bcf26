/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OPAVNIC_AGENT_H
#define OPAVNIC_AGENT_H

/* Open the terminal, in raw mode: from then on the other end may write to it. Return 0, or -1 and errno. */
int open_wire(const char *terminal);

/* Start programs for the other end, until it hangs up; then power off. */
void serve(void);

#endif
