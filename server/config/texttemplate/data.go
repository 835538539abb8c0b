package texttemplate

// Data is what a template can refer to. Which of it a template sees depends on
// the [Scope]; to refer to what it does not see is an error.
type Data struct {
	Instance Instance
	Cluster  Cluster
	Server   Server
	Provider Provider
	Machine  Machine           // in user data only
	Vars     map[string]string // merged; also seen as .Var
	Image    map[string]string // ids of images by their keys
	Nonce    string            // the registration nonce: a secret, in user data only
	Join     string            // what it takes to join the cluster: a secret, in user data only; empty unless it was asked for
}

// Instance is the machine that a template is rendered for.
type Instance struct {
	ID, Kind, Arch, Type string
	Group, Tenant        string
	OnDemand             bool
	// Known once the machine has registered; empty in user data and arguments.
	Hostname, FQDN, IP4, IP6 string
}

// Cluster is the cluster that the machine belongs to.
type Cluster struct {
	ID     string
	CACert string // PEM
}

// Server is how the machine reaches its shard: host:port each, advertised.
type Server struct {
	Shard                                     string
	RegistrationAddr, AgentAddr, OperatorAddr string
}

// Provider is the cloud that the machine lives in.
type Provider struct {
	Kind, Region, Zone string
}

// Machine is what the host of a node machine is told of it.
type Machine struct {
	Policy string // the host's policy file in YAML; empty where the template has no machine that is enabled
}

// Scope is the purpose of a template.
type Scope int

// The scopes.
const (
	Userdata    Scope = iota + 1 // sees the nonce, not the machine's addresses
	Args                         // sees neither
	Files                        // sees the addresses
	Certificate                  // sees the addresses, not the images
)

// view is the data as a template of the scope sees it. The root is a map, so
// that a name which is not there is a missing key.
func (d Data) view(scope Scope) map[string]any {
	if scope == Userdata || scope == Args {
		d.Instance.Hostname, d.Instance.FQDN, d.Instance.IP4, d.Instance.IP6 = "", "", "", ""
	}
	vars := d.Vars
	if vars == nil {
		vars = map[string]string{}
	}
	root := map[string]any{
		"Instance": d.Instance, "Cluster": d.Cluster, "Server": d.Server, "Provider": d.Provider,
		"Vars": vars, "Var": vars,
	}
	if scope != Certificate {
		root["Image"] = d.Image
	}
	if scope == Userdata {
		root["Nonce"], root["Join"], root["Machine"] = d.Nonce, d.Join, d.Machine
	}
	return root
}

// Sample is made-up data of the right shape, to try templates with before there
// is a machine.
func Sample(vars, images map[string]string) Data {
	return Data{
		Instance: Instance{
			ID: "smp068a3cp3thz5z2mv1gejwftabc", Kind: "smp", Arch: "amd64", Type: "sample", Group: "sample", Tenant: "default",
			Hostname: "sample", FQDN: "sample.example.com", IP4: "192.0.2.1", IP6: "2001:db8::1",
		},
		Cluster:  Cluster{ID: "sample", CACert: "-----BEGIN CERTIFICATE-----\nc2FtcGxl\n-----END CERTIFICATE-----\n"},
		Server:   Server{Shard: "sample", RegistrationAddr: "192.0.2.2:8992", AgentAddr: "192.0.2.2:8994", OperatorAddr: "192.0.2.2:8993"},
		Provider: Provider{Kind: "sample", Region: "sample", Zone: "sample"},
		Machine:  Machine{Policy: "allow:\n  operations: []\n  pave: true\n"},
		Vars:     vars, Image: images, Nonce: "sample.nonce", Join: "#!/bin/sh\n",
	}
}
