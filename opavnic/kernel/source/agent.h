/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OPAVNIC_AGENT_H
#define OPAVNIC_AGENT_H

/* Open the device file that leads to the other end. Return 0, or -1 and errno. */
int open_wire(const char *path);

/* Start programs for the other end, until it hangs up; then power off. */
void serve(void);

#endif
