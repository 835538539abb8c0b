// Package interruption learns from the cloud that it will take the machine away.
//
// Machines that a cloud sells from its spare capacity (spot, preemptible) are told so
// shortly before, by the metadata service that only the machine itself can reach. A
// [Watcher] finds out which cloud it is on and whether the machine is one of those, waits
// for the announcement, and keeps it: who reports asks [Watcher.Notice], and is woken by
// [Watcher.News].
//
// AWS is polled, by version 2 of its service, which demands a token. Google answers a
// request when the value changes, so there a notice arrives at once. On other clouds, and
// on machines that are paid in full, nothing is asked any more once that is known.
//
// Requests go to the link-local address of the metadata service, or to the one address that
// is given instead, and nowhere else: no name is resolved, no proxy used and no redirection
// followed.
//
// Sources: "Use the Instance Metadata Service" and "Spot Instance interruption notices" of
// the EC2 user guide; "Query VM metadata" and "Preemptible VM instances" of the Compute
// Engine documentation.
package interruption
