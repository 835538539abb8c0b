// Package readback writes down in Kubernetes what the shards say: an UpcomingNode for each
// machine that is bound to the cluster, and an AvailableCapacity for each profile that is asked
// for.
//
// What is written and when something is deleted package operator/demand/readback decides; a
// [Writer] observes and carries out. The objects are read from the API server once, when a
// Writer starts, and remembered from then on: nobody else writes them, and a cache would be
// behind what was just written. A call that finds them changed or gone all the same reads the
// object again.
//
// Spec and status are written by merge patches without a resource version. A call that fails is
// the caller's to repeat, with the newest that the shard has said.
//
// Rights, where the Pods are: upcomingnodes and availablecapacities get list create patch
// delete, and the status of both patch.
package readback
