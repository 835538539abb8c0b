// Package proxmoxfake is a Proxmox VE cluster in memory that speaks api2/json.
//
// It is for tests of the driver and for people without a cluster: a [Cloud] is an
// [net/http.Handler] that an unmodified client runs against, in process or over a
// socket. What it knows is what the driver needs and a little more: nodes, storages
// and templates, clones, configuration, disks, ISO images, power, tasks, tokens with
// privileges. What it does not know it refuses as the real one does, with status 501,
// and so are parameters that the real API does not have, with status 400.
//
// It keeps to the manners of the real thing, above all to those that hurt:
//
//   - Work is done by tasks. A call returns a UPID; what becomes of it, the task's
//     exit status says. Most refusals come this way.
//   - A clone is checked twice, early and by its worker. Two clones for one free
//     number both get a UPID, and one of the tasks fails.
//   - Until its clone is done a machine has no name and no tags, only the lock
//     "clone", and it stands on the template's node.
//   - /cluster/resources knows numbers, tags and locks at once, names and statuses
//     only after the next round of the status daemon ([Options.Lag]).
//   - Refusals stand in the status line, after the number.
//   - A node that is away answers for nobody: calls about its machines have status
//     595, its tasks are lost, and what they were making stays as it was.
//
// Time is that of package time; tasks proceed when somebody looks. Nothing runs in
// the background unless [Options.Run] is set, so a Cloud works in a bubble of
// testing/synctest.
package proxmoxfake
