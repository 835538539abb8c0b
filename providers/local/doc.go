// Package local is a cloud whose machines are processes on this box.
//
// A machine is its user data, run by /bin/sh in a session of its own and in a
// directory of its own, {dir}/<instance-id>/. The user data usually ends with
// the exec of an agent ([DefaultUserData] does), so the machine's process is
// the agent. Machines outlive the server that made them, as those of any cloud
// do, and any server that opens the same directory finds them again.
//
// The driver itself is thin. Beside it stand
//   - machines: make, start, find, list, switch and end machines
//   - process: the box's processes, recognized, signalled and waited for
//   - store: the machines' directories, marks and locks
//   - balancers, images: what people put beside the machines
//   - rules: what a configuration is checked by
//   - dev: a whole cluster on one box, to try things out
//
// # What is true
//
// The operating system is, not a file. A machine runs if a process exists whose
// pid, start time and boot id are the recorded ones; so neither a recycled pid
// nor a reboot makes a stranger ours. Every signal goes through a pidfd whose
// process was recognized after it was opened: a stranger is never hit. The
// statuses: alive is running, dead is failed, stopped by Halt or by a
// reboot of the box is stopped, asked to end is deleting, and a machine that has
// not begun to run its user data is pending.
//
// How a process ended is known by a file alone, which its parent writes before it lets
// the process rest: the server that started the machine, if it still runs. Of a machine
// that ends when that server does not, nobody learns it.
//
// # What survives a crash
//
// No cloud stands behind this driver that goes on when the server dies. So
// every look at a machine, by Get or List, carries on what was begun:
//
//   - The directory appears complete, by one rename that fails if it exists:
//     from then on the machine exists. Who finds one whose user data never ran
//     starts it, and nobody starts it twice, because starting takes the
//     machine's lock and the recorded process is looked for first.
//   - A process waits at a pipe until it is recorded. If the server dies before
//     that, the pipe breaks and the process ends without having run a line of
//     the user data.
//   - A delete leaves a mark before it does anything else. The mark refuses a
//     create that arrives late, and who finds it beside a machine ends that
//     machine: a polite signal to its process group, a killing one after two
//     seconds, then the directory goes. Marks are forgotten after an hour.
//
// # Layout of a machine's directory
//
//	machine.json             who it is: owner, tenant, group, kind, type, subnet
//	userdata                 0600; it holds the nonce, and never becomes an argument
//	identity/ keys/ recv/    0700; the agent's
//	log                      what the user data and the agent print
//	pid                      for people and scripts; absent while the machine is stopped
//	start                    the recorded process: pid, start time, boot id
//	booted                   the user data was begun
//	stopped                  stopped by Halt, to be started by Resume
//	exit                     how the process ended, if nobody asked for that
//
// Beside the machines stand leader.json, the leader's addresses, what people put
// there (balancers/{key}/, with a file for each member, and images/), and the hidden
// directories .deleted (marks), .locks, .new and .trash.
//
// The environment of a machine is small and holds nothing of the server's:
// PATH, HOME, TMPDIR, NSTANCE_MACHINE_DIR, NSTANCE_AGENT (the agent's binary),
// NSTANCE_SERVER_ADDR_FILE (leader.json), and NSTANCE_MACHINE_ADDRESS where
// machines are said to have addresses.
//
// The package needs Linux 5.10 or newer, and a directory on a local file system.
package local
