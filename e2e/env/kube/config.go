package kube

import "time"

// Component is one of the programs that a cluster consists of. Its value is the name
// of the program.
type Component string

// The components of a cluster. The first two are always there.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	ClusterAPI        Component = "capi-core"
)

// Config says what a cluster has besides etcd and the API server. The zero value is
// enough to try out CustomResourceDefinitions, policies, webhooks and RBAC; no Pod can be made
// in it, for the ServiceAccount that each has is the work of the controller manager.
type Config struct {
	// ControllerManager collects garbage, makes Pods of Deployments, keeps disruption
	// budgets and says which Nodes do not answer.
	ControllerManager bool

	// Scheduler gives Pods their Nodes.
	Scheduler bool

	// ClusterAPI is the core of Cluster API with its resources, its webhooks, and the
	// features that a release has enabled. It comes with the controller manager, which
	// puts its rights together from the roles of those who extend it.
	ClusterAPI bool

	// Kubelets has the controller manager sign the certificates that kubelets ask for, once somebody
	// has approved that. It comes with the controller manager.
	Kubelets bool

	// Names are further names and addresses of the API server, where it runs [Here].
	Names []string

	// NodeMonitorGrace is how long a Node may be silent before it is no longer ready;
	// 0 is Kubernetes' own default, 50s.
	NodeMonitorGrace time.Duration

	// Flags are given to a component after those that it has anyway.
	Flags map[Component][]string

	// Env is added to the environment of a component that runs [Here], as NAME=value.
	Env map[Component][]string
}

// components returns what the configuration asks for, in the order of starting.
func (c Config) components() []Component {
	all := []Component{Etcd, APIServer}
	if c.ControllerManager || c.ClusterAPI || c.Kubelets {
		all = append(all, ControllerManager)
	}
	if c.Scheduler {
		all = append(all, Scheduler)
	}
	if c.ClusterAPI {
		all = append(all, ClusterAPI)
	}
	return all
}
