// SPDX-License-Identifier: BSD-3-Clause
/*
 * Starts programs in the kernel for the process outside, over a device file that leads to it (agent_file.c). Both ways go
 * messages: session (4 bytes), kind, a zero, length of what follows (2 bytes), and that;
 * big-endian. `opavnic/kernel/messages.py` says what each holds.
 *
 * A session is one program. Of its output so much is under way at most as SESSION_WINDOW says, so that a reader that is
 * slow does not stop the others; of its input the other end keeps the same.
 */
#define _GNU_SOURCE
#include "agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define SESSIONS	64
#define SESSION_WINDOW	65536
#define PIECE		16384
#define BODY_MAX	65535

enum kind {
	START = 1, INPUT, SIGNAL, SIZE, TAKEN, END, HOSTS, NETLINK,
	OUTPUT = 0x11, ERRORS, EXITED, FAILED, READ, ROUTES,
};

struct message {
	uint32_t session;
	uint8_t kind, zero;
	uint16_t length;
};

struct session {
	uint32_t id;		/* 0: free */
	pid_t pid;
	int in, out, err;	/* -1: closed; of a terminal, all three are one */
	uint32_t under_way;	/* output that has not been taken */
	uint32_t waiting;	/* bytes of `input` */
	int ended, status;
	int last;		/* no input comes any more */
	int left;		/* its output is of no use any more */
	char input[SESSION_WINDOW];
};

static struct session sessions[SESSIONS];
static int wire, routes;

static void end(void)
{
	sync();
	reboot(RB_POWER_OFF);
	_exit(0);
}

static void put(const void *data, size_t length)
{
	while (length) {
		ssize_t done = write(wire, data, length);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			end();
		data = (const char *)data + done;
		length -= done;
	}
}

static void say(uint32_t session, enum kind kind, const void *body, size_t length)
{
	static char out[sizeof(struct message) + BODY_MAX];
	struct message head = { htonl(session), kind, 0, htons(length) };

	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), body, length);
	put(out, sizeof(head) + length);
}

static void say_number(uint32_t session, enum kind kind, uint32_t number)
{
	number = htonl(number);
	say(session, kind, &number, sizeof(number));
}

static void get(void *data, size_t length)
{
	while (length) {
		ssize_t done = read(wire, data, length);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			end();
		data = (char *)data + done;
		length -= done;
	}
}

static struct session *find(uint32_t id)
{
	for (int i = 0; i < SESSIONS; i++)
		if (sessions[i].id == id)
			return &sessions[i];
	return NULL;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* --- starting a program ------------------------------------------------------------------------------------------ */

struct start {
	uint8_t terminal, zero;
	uint16_t rows, columns, words;	/* words: the directory and the program with its arguments */
};

static void become(char **words, char **environment, const int *ends, int is_terminal)
{
	sigset_t none;
	int mine[3], error;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	if (is_terminal)
		ioctl(ends[0], TIOCSCTTY, 0);
	for (int i = 0; i < 3; i++)
		mine[i] = fcntl(ends[i], F_DUPFD, 10);
	for (int i = 0; i < 3; i++)
		dup2(mine[i], i);
	close_range(3, ends[3] - 1, 0);
	close_range(ends[3] + 1, ~0U, 0);
	if (chdir(words[0]) && chdir("/"))
		_exit(126);
	environ = environment;
	execvp(words[1], words + 1);
	error = errno;
	if (write(ends[3], &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

static int open_terminal(int *ends, struct session *made, const struct start *start)
{
	struct winsize size = { .ws_row = ntohs(start->rows), .ws_col = ntohs(start->columns) };
	int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0, number;
	char name[32];

	if (terminal < 0 || ioctl(terminal, TIOCSPTLCK, &unlock) || ioctl(terminal, TIOCGPTN, &number))
		return -1;
	ioctl(terminal, TIOCSWINSZ, &size);
	snprintf(name, sizeof(name), "/dev/pts/%d", number);
	ends[0] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	ends[1] = ends[2] = ends[0];
	made->in = made->out = terminal;
	return ends[0] < 0 ? -1 : 0;
}

static int open_pipes(int *ends, struct session *made)
{
	int in[2], out[2], err[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return -1;
	ends[0] = in[0], ends[1] = out[1], ends[2] = err[1];
	made->in = in[1], made->out = out[0], made->err = err[0];
	return 0;
}

/* Split strings, each with its zero; return the number, or -1 if there are more than fit or the last has no end. */
static int split(char *text, size_t length, char **into, int most)
{
	int count = 0;

	for (char *at = text; at < text + length; at += strlen(at) + 1) {
		if (count == most || text[length - 1])
			return -1;
		into[count++] = at;
	}
	into[count] = NULL;
	return count;
}

static void start_program(uint32_t id, char *body, size_t length)
{
	static char *strings[4096], *words[4096];
	struct session *made = find(0);
	struct start start;
	int ends[4] = { -1, -1, -1, -1 }, told[2], count, error = 0, number;

	memcpy(&start, body, length < sizeof(start) ? length : sizeof(start));
	count = length > sizeof(start) ? split(body + sizeof(start), length - sizeof(start), strings, 4095) : -1;
	number = ntohs(start.words);
	if (count < number || number < 2 || !made) {
		say_number(id, FAILED, made ? E2BIG : EAGAIN);
		return;
	}
	memcpy(words, strings, number * sizeof(*words));
	words[number] = NULL;
	memset(made, 0, offsetof(struct session, input));
	made->in = made->out = made->err = -1;
	if ((start.terminal ? open_terminal(ends, made, &start) : open_pipes(ends, made)) || pipe2(told, O_CLOEXEC)) {
		error = errno;
		goto fail;
	}
	made->pid = fork();
	if (!made->pid) {
		ends[3] = told[1];
		become(words, strings + number, ends, start.terminal);
	}
	close(told[1]);
	if (made->pid < 0)
		error = errno;
	else if (read(told[0], &error, sizeof(error)) == sizeof(error))
		waitpid(made->pid, NULL, 0);
	else
		error = 0;
	close(told[0]);
fail:
	close_fd(&ends[0]);
	if (!start.terminal) {
		close_fd(&ends[1]);
		close_fd(&ends[2]);
	}
	if (!error) {
		made->id = id;
		fcntl(made->in, F_SETFL, O_NONBLOCK);
		fcntl(made->out, F_SETFL, O_NONBLOCK);
		if (made->err >= 0)
			fcntl(made->err, F_SETFL, O_NONBLOCK);
		return;
	}
	if (made->in != made->out)
		close_fd(&made->in);
	close_fd(&made->out);
	close_fd(&made->err);
	say_number(id, FAILED, error);
}

/* --- a program that runs ----------------------------------------------------------------------------------------- */

static void close_input(struct session *its)
{
	if (its->in != its->out)
		close_fd(&its->in);
	its->in = -1;
	its->waiting = 0;
}

static void feed(struct session *its)
{
	ssize_t done = its->waiting && its->in >= 0 ? write(its->in, its->input, its->waiting) : 0;

	if (done < 0 && errno != EAGAIN && errno != EINTR) {
		say_number(its->id, READ, its->waiting);
		close_input(its);
		return;
	}
	if (done > 0) {
		its->waiting -= done;
		memmove(its->input, its->input + done, its->waiting);
		say_number(its->id, READ, done);
	}
	if (its->last && !its->waiting)
		close_input(its);
}

static void take_input(struct session *its, const char *body, size_t length)
{
	if (!length)
		its->last = 1;
	else if (its->in < 0)
		say_number(its->id, READ, length);
	else if (length <= SESSION_WINDOW - its->waiting) {
		memcpy(its->input + its->waiting, body, length);
		its->waiting += length;
	}
	feed(its);
}

/* Pass output on; return whether there may be more. */
static int pass(struct session *its, int *from, enum kind kind)
{
	char piece[PIECE];
	size_t room = SESSION_WINDOW - its->under_way;
	ssize_t done;

	if (*from < 0 || !room)
		return 0;
	done = read(*from, piece, room < PIECE ? room : PIECE);
	if (done > 0) {
		its->under_way += done;
		say(its->id, kind, piece, done);
		return 1;
	}
	if (!done || (errno != EAGAIN && errno != EINTR)) {
		if (*from == its->in)
			its->in = -1;
		close_fd(from);
	}
	return 0;
}

static int has_output(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };

	return fd >= 0 && poll(&one, 1, 0) > 0 && (one.revents & POLLIN);
}

/* End a session whose program has ended, once all that it has written is on its way. */
static void finish(struct session *its)
{
	if (!its->ended || (!its->left && (has_output(its->out) || has_output(its->err))))
		return;
	close_input(its);
	close_fd(&its->out);
	close_fd(&its->err);
	say_number(its->id, EXITED, WIFSIGNALED(its->status) ? 128 + WTERMSIG(its->status) : WEXITSTATUS(its->status));
	its->id = 0;
}

static void kill_group(struct session *its, int number)
{
	if (its->pid > 0 && !its->ended)
		kill(-its->pid, number);
}

static void resize(struct session *its, const char *body)
{
	uint16_t sizes[2];
	struct winsize size = { 0 };

	memcpy(sizes, body, sizeof(sizes));
	size.ws_row = ntohs(sizes[0]);
	size.ws_col = ntohs(sizes[1]);
	ioctl(its->out, TIOCSWINSZ, &size);
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < SESSIONS; i++)
			if (sessions[i].id && sessions[i].pid == pid) {
				sessions[i].ended = 1;
				sessions[i].status = status;
			}
}

/* --- the host's own settings ------------------------------------------------------------------------------------- */

/* Let programs find names of hosts: /etc/hosts is covered by a file of this kernel's own. */
static void name_hosts(const char *body, size_t length)
{
	static int covered;
	int file;

	if (!covered) {
		mkdir("/dev/shm/opavnic", 0755);
		close(open("/dev/shm/opavnic/hosts", O_CREAT | O_CLOEXEC, 0644));
		covered = !mount("/dev/shm/opavnic/hosts", "/etc/hosts", NULL, MS_BIND, NULL);
	}
	file = open("/dev/shm/opavnic/hosts", O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (file >= 0 && write(file, body, length) < 0)
		perror("/etc/hosts");
	close_fd(&file);
}

static void open_routes(void)
{
	struct sockaddr_nl us = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int size = 1 << 20;

	routes = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	setsockopt(routes, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (routes < 0 || bind(routes, (struct sockaddr *)&us, sizeof(us)))
		perror("netlink");
}

static void tell_routes(void)
{
	char said[BODY_MAX];
	ssize_t length = recv(routes, said, sizeof(said), 0);

	if (length > 0)
		say(0, ROUTES, said, length);
}

/* --- all of them ------------------------------------------------------------------------------------------------- */

static void take(void)
{
	static char body[BODY_MAX + 1];
	struct message head;
	struct session *its;
	size_t length;
	uint32_t number;

	get(&head, sizeof(head));
	length = ntohs(head.length);
	get(body, length);
	its = head.session ? find(ntohl(head.session)) : NULL;
	if (head.kind == START)
		start_program(ntohl(head.session), body, length);
	else if (head.kind == HOSTS)
		name_hosts(body, length);
	else if (head.kind == NETLINK)
		send(routes, body, length, 0);
	if (!its)
		return;
	memcpy(&number, body, sizeof(number));
	if (head.kind == INPUT)
		take_input(its, body, length);
	else if (head.kind == SIGNAL && length == 1)
		kill_group(its, body[0]);
	else if (head.kind == SIZE && length == 4)
		resize(its, body);
	else if (head.kind == TAKEN && length == 4)
		its->under_way -= ntohl(number) > its->under_way ? its->under_way : ntohl(number);
	else if (head.kind == END) {
		kill_group(its, SIGHUP);
		kill_group(its, SIGKILL);
		its->under_way = 0;
		its->left = 1;
	}
}

static void watch(struct pollfd *polled, int fd, short events)
{
	polled->fd = events ? fd : -1;
	polled->events = events;
	polled->revents = 0;
}

int open_wire(const char *path)
{
	wire = open(path, O_RDWR | O_CLOEXEC);
	return wire < 0 ? -1 : 0;
}

void serve(void)
{
	static struct pollfd polled[3 + 3 * SESSIONS];
	sigset_t children;
	int ended;

	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, NULL);
	signal(SIGPIPE, SIG_IGN);
	ended = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	open_routes();
	for (;;) {
		watch(&polled[0], wire, POLLIN);
		watch(&polled[1], ended, POLLIN);
		watch(&polled[2], routes, POLLIN);
		for (int i = 0; i < SESSIONS; i++) {
			struct session *its = &sessions[i];
			short room = its->id && its->under_way < SESSION_WINDOW ? POLLIN : 0;

			watch(&polled[3 + 3 * i], its->in, its->id && its->waiting ? POLLOUT : 0);
			watch(&polled[4 + 3 * i], its->out, room);
			watch(&polled[5 + 3 * i], its->err, room);
		}
		if (poll(polled, 3 + 3 * SESSIONS, -1) < 0)
			continue;
		if (polled[1].revents) {
			struct signalfd_siginfo info;

			if (read(ended, &info, sizeof(info)) > 0)
				reap();
		}
		for (int i = 0; i < SESSIONS; i++) {
			struct session *its = &sessions[i];

			if (!its->id)
				continue;
			if (polled[3 + 3 * i].revents)
				feed(its);
			if (polled[4 + 3 * i].revents)
				pass(its, &its->out, OUTPUT);
			if (polled[5 + 3 * i].revents)
				pass(its, &its->err, ERRORS);
			finish(its);
		}
		if (polled[2].revents)
			tell_routes();
		if (polled[0].revents)
			take();
	}
}
