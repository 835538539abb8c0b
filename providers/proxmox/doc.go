// Package proxmox is Proxmox VE as a [nstance.dev/server/driver.Driver].
//
// A machine is a clone of a template, and a CD from which cloud-init takes the user
// data. The package leaves retries, rates and time-outs to the server, and knows
// nothing of groups.
//
// The driver itself is thin. Beside it stand
//   - api: the calls of Proxmox VE's API, its tasks and what its errors mean
//   - cluster: what a listing of the cluster says
//   - machines: find, list, switch and end machines
//   - creation: make one, task by task
//   - placement: choose a node
//   - template, seed: what a machine is cloned from, and its CD
//   - metadata: the tags and notes that say whose a machine is
//   - rules: what a configuration is checked by, without the API
//
// # Who a machine is
//
// A machine's name is its instance id, and that is the authority; its number is a
// handle that may be given out again. Owner and id stand in tags as well, because
// those can be read when the name can't: while the machine's node is away, and for
// some seconds after the machine was made. A call on a machine always asks the
// cluster where it is now, for it may have moved.
//
// # How one is made
//
// There is no call that makes a machine, but a row of tasks; see package creation. What
// has been reached is remembered, and the same create goes on there, as one does whose
// time ran out in a long clone. A create that fails for good removes what it has made
// first; only if that fails too is its outcome open.
//
// Two may ask for the same number at once. Whoever loses learns it from the task,
// and takes the next one. If the answer to a clone is lost, the same number is asked
// for again, so that there are never two machines.
//
// A server that dies in the middle leaves a machine that was never started. It is
// listed, by its notes if it has no tags yet, and ends like any other one that does
// not run.
//
// # Where it is made
//
// Of the nodes that have the memory, those with the fewest machines of the same group are
// taken, and of these the one with the best of free memory and free processors. Free is
// what no guest that runs may take. What creates that are under way will use counts as
// used, and a node that could not be reached, or had no room, is passed over for a while.
// Clones onto one storage wait for each other, because the storage's lock does not wait
// for long.
//
// # What it is made of
//
// A template's copy. Its first network device is moved to the subnet's bridge and keeps
// what else the template says of it, such as the firewall. The argument Config passes
// further options on, but for those that the server owns and for what reaches beyond the
// machine. A call that makes disks is made against the configuration as it was read, so
// that one which arrives twice makes them once.
//
// # How the cluster is reached
//
// By any of its nodes: a call that surely did not arrive goes to the next one.
// [Driver.Check] tells a server that starts whether the token is accepted.
//
// # What it does not have
//
// An address that moves with leadership (the documentation shows how to have one by
// VRRP), load balancers, spot machines, prices.
package proxmox
