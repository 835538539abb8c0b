// Package cluster makes the objects that Cluster API wants of a cluster, and says in their
// statuses how the operator stands with its shards.
//
// There is one Cluster for each operator, with an NstanceCluster and an
// NstanceControlPlane of the same name. What is missing is made; what is there is a
// person's to change and is left as it is, with one exception: the address of the API
// server is filled in where nobody has said one. Nothing is made while any of the three is
// being deleted: with the Cluster every pool goes, and whoever wants that gets it.
//
// Pure functions decide (objects.go, status.go), [Reconciler] carries out.
//
// [OperatorReconciler] says on the NstanceCluster how the operator itself stands: whether it
// has its certificate, so that its nonce may go, and whether it reaches the API server that
// the Nodes are in. [OperatorConditions] decides. It looks each minute and whenever the
// NstanceCluster changes.
//
// Rights: clusters get list watch create, nstanceclusters and nstancecontrolplanes get
// list watch create patch, their status patch; secrets get; events create patch; the API server's
// version is open to everybody.
package cluster
