package bootstrap

import (
	"nstance.dev/protos/binding"
	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// Machine is the dot of a template: the machine that is to join.
type Machine struct {
	ClusterID    string // of the servers' configuration
	Tenant       string
	MachineID    string
	RequestID    string
	InstanceType string
	Zone         string
	CapacityType string // on-demand, spot, reserved or bare-metal

	Requirements  []Requirement     // of the need that it was bought for
	NodeLabels    map[string]string // that the kubelet has to register, nstance.dev/instance-id among them
	Taints        []binding.Taint   // that the kubelet has to register
	StartupTaints []binding.Taint   // the same; something in the cluster removes them
	Vars          map[string]string // of the group in the servers' configuration
}

// Requirement is a condition on one label.
type Requirement struct {
	Key      string
	Operator string // In, NotIn, Exists, DoesNotExist, Same, Gt or Lt
	Values   []string
}

// LabelFlag returns the labels as the kubelet's flag --node-labels has them.
func (m Machine) LabelFlag() string { return m.node().LabelFlag() }

// TaintFlag returns the taints of both kinds as the kubelet's flag --register-with-taints has
// them.
func (m Machine) TaintFlag() string { return m.node().TaintFlag() }

// AllTaints returns the taints of both kinds; as JSON it is a list also where there are none.
func (m Machine) AllTaints() []binding.Taint {
	return append(append([]binding.Taint{}, m.Taints...), m.StartupTaints...)
}

func (m Machine) node() binding.Node {
	return binding.Node{Labels: m.NodeLabels, Taints: m.Taints, StartupTaints: m.StartupTaints}
}

// machine returns what a request is about. Labels and taints that no Node can have are an
// error, so that templates need not quote them.
func machine(clusterID, tenant string, r *demandpb.BootstrapRequest) (Machine, error) {
	m := Machine{
		ClusterID: clusterID, Tenant: tenant, MachineID: r.GetMachineId(), RequestID: r.GetRequestId(),
		InstanceType: r.GetInstanceType(), Zone: r.GetZone(), CapacityType: r.GetCapacityType(),
		NodeLabels: r.GetNodeLabels(), Taints: taints(r.GetTaints()), StartupTaints: taints(r.GetStartupTaints()), Vars: r.GetVars(),
	}
	for _, q := range r.GetRequirements() {
		m.Requirements = append(m.Requirements, Requirement{q.GetKey(), operators[q.GetOperator()].String(), q.GetValues()})
	}
	return m, m.node().Check()
}

func taints(all []*demandpb.Taint) []binding.Taint {
	var list []binding.Taint
	for _, t := range all {
		list = append(list, binding.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: effects[t.GetEffect()]})
	}
	return list
}

// The words of Kubernetes for the enumerations of the wire.
var (
	operators = map[demandpb.Operator]needs.Operator{
		demandpb.Operator_OPERATOR_IN: needs.In, demandpb.Operator_OPERATOR_NOT_IN: needs.NotIn,
		demandpb.Operator_OPERATOR_EXISTS: needs.Exists, demandpb.Operator_OPERATOR_DOES_NOT_EXIST: needs.DoesNotExist,
		demandpb.Operator_OPERATOR_SAME: needs.Same, demandpb.Operator_OPERATOR_GT: needs.Gt, demandpb.Operator_OPERATOR_LT: needs.Lt,
	}
	effects = map[demandpb.TaintEffect]string{
		demandpb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE:        "NoSchedule",
		demandpb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE: "PreferNoSchedule",
		demandpb.TaintEffect_TAINT_EFFECT_NO_EXECUTE:         "NoExecute",
	}
)
