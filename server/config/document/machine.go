package document

import (
	"encoding/pem"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"nstance.dev/server/config/jsonc"
)

// Machine says that Kubernetes nodes run in node machines on the machines of a template: an operator
// makes a HostMachine for each, and builds its node from a MachineConfiguration.
type Machine struct {
	// Whether it does. The image then needs nstance-paver and systemd-nspawn, and user data must not start a kubelet. Default false. A change replaces the machines.
	Enabled bool `json:"enabled,omitempty"`
	// What the host lets its operator do, whoever asks. User data writes it to the host, as .Machine.Policy; a change replaces the machines.
	Policy *MachinePolicy `json:"policy,omitempty"`
	// How long a machine may be on hold for power, switched off by an operation or by hand, before it is judged as any stopped machine; 1m to 30d. Without enabled it does not count. Default 24h.
	MaxHold *Duration `json:"max_hold,omitempty"`
}

// MachinePolicy bounds what is done with root's rights on a host. It has the form of the file that
// the host reads.
type MachinePolicy struct {
	// What may be done at all.
	Allow *MachineAllow `json:"allow,omitempty"`
	// Where the root file systems of node machines may come from.
	Images *MachineImages `json:"images,omitempty"`
	// What of the host's directories may be bound into a node machine.
	Binds *AllowedPaths `json:"binds,omitempty"`
	// Which devices of the host a node machine may have.
	Devices *AllowedPaths `json:"devices,omitempty"`
	// Whose SSH keys may be set.
	SSH *MachineSSH `json:"ssh,omitempty"`
	// Whether changed files are looked for and reported. Default true.
	Drift *bool `json:"drift,omitempty"`
}

// MachineAllow says what may be done.
type MachineAllow struct {
	// Whether node machines may be built. Default true.
	Pave *bool `json:"pave,omitempty"`
	// Names of operations that the host carries out, such as reboot or example.com/capture; at most 64. Default: none.
	Operations []string `json:"operations,omitempty"`
	// Whether node machines may be built where limits of Pods have no effect, such as a host without control groups of version 2. Default false.
	Degraded bool `json:"degraded,omitempty"`
}

// MachineImages bounds images.
type MachineImages struct {
	// What the reference or address of an image must begin with, one of them; each has a slash after the host. That of an archive in the object storage is storage:/ and its key. At most 64. Default: any.
	Prefixes []string `json:"prefixes,omitempty"`
	// Whether an image has to be named by its digest. Default true.
	RequireDigest *bool `json:"requireDigest,omitempty"`
	// Public keys in PEM, one of which must have signed an image; at most 16. Default: no signature is asked for.
	PublicKeys []string `json:"publicKeys,omitempty"`
}

// AllowedPaths is a list of paths.
type AllowedPaths struct {
	// Absolute paths; each allows what is below it too, and one that ends in * all that begins so. At most 64. Default: none.
	Allow []string `json:"allow,omitempty"`
}

// MachineSSH bounds SSH keys.
type MachineSSH struct {
	// Users of the host; at most 32. Default: none.
	Users []string `json:"users,omitempty"`
}

// defaultMaxHold is how long a machine stays off by default.
const defaultMaxHold = Duration(24 * time.Hour)

// Hold is how long a machine may be off on purpose.
func (m *Machine) Hold() Duration {
	if m == nil || m.MaxHold == nil {
		return defaultMaxHold
	}
	return *m.MaxHold
}

// On is the block where it is enabled; nil elsewhere.
func (m *Machine) On() *Machine {
	if m == nil || !m.Enabled {
		return nil
	}
	return m
}

// PolicyText is the policy as the host's file has it, in YAML with every default written out; empty
// where the block is not enabled.
func (m *Machine) PolicyText() string {
	if m.On() == nil {
		return ""
	}
	text, err := yaml.Marshal(m.Policy.complete())
	if err != nil {
		panic("config: a policy without YAML form: " + err.Error()) // lists of texts
	}
	return string(text)
}

// policyFile is the file of the host. It stands apart from the configuration's own types, so that a new
// field there changes the file of no host; what came after the first release is left out where it is not set.
type policyFile struct {
	Allow struct {
		Pave       bool     `json:"pave"`
		Operations []string `json:"operations"`
		Degraded   bool     `json:"degraded,omitempty"`
	} `json:"allow"`
	Images struct {
		Prefixes      []string `json:"prefixes"`
		RequireDigest bool     `json:"requireDigest"`
		PublicKeys    []string `json:"publicKeys"`
	} `json:"images"`
	Binds   pathsFile `json:"binds"`
	Devices pathsFile `json:"devices"`
	SSH     struct {
		Users []string `json:"users"`
	} `json:"ssh"`
	Drift bool `json:"drift"`
}

type pathsFile struct {
	Allow []string `json:"allow"`
}

// complete fills the defaults in.
func (p *MachinePolicy) complete() (f policyFile) {
	if p == nil {
		p = &MachinePolicy{}
	}
	allow, images := orZero(p.Allow), orZero(p.Images)
	f.Allow.Pave, f.Allow.Operations, f.Allow.Degraded = orTrue(allow.Pave), listed(allow.Operations), allow.Degraded
	f.Images.Prefixes, f.Images.RequireDigest, f.Images.PublicKeys = listed(images.Prefixes), orTrue(images.RequireDigest), listed(images.PublicKeys)
	f.Binds.Allow, f.Devices.Allow, f.SSH.Users = listed(orZero(p.Binds).Allow), listed(orZero(p.Devices).Allow), listed(orZero(p.SSH).Users)
	f.Drift = orTrue(p.Drift)
	return f
}

func orZero[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

func orTrue(p *bool) bool { return p == nil || *p }

// listed is a list that is written as one also where it is empty.
func listed(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

var (
	operationName = regexp.MustCompile(`^([a-z][A-Za-z0-9]{0,62}|[a-z0-9.-]{1,190}/[A-Za-z0-9._-]{1,62})$`)
	imagePrefix   = regexp.MustCompile(`^(https?://)?[A-Za-z0-9][A-Za-z0-9.:-]*/[!-~]*$`)
	hostPath      = regexp.MustCompile(`^/[^*?\x00-\x1f]*\*?$`)
	hostUser      = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
)

// Problems are those of the block by itself.
func (m *Machine) Problems() []Problem {
	if m == nil {
		return nil
	}
	var all []Problem
	if h := m.MaxHold; h != nil && (h.Std() < time.Minute || h.Std() > 30*24*time.Hour) {
		all = append(all, Problem{at("max_hold"), h.String() + " is out of range", "from 1m to 30d"})
	}
	p := orZero(m.Policy)
	lists := []policyList{
		{at("policy", "allow", "operations"), orZero(p.Allow).Operations, 64, operationName.MatchString, "the name of an operation", `such as reboot, or example.com/capture`},
		{at("policy", "images", "prefixes"), orZero(p.Images).Prefixes, 64, imagePrefix.MatchString, "the beginning of an image's reference", `with a slash after the host, such as "registry.example.com/"`},
		{at("policy", "images", "publicKeys"), orZero(p.Images).PublicKeys, 16, isPublicKey, "a public key in PEM", "write the whole block, from -----BEGIN PUBLIC KEY----- on"},
		{at("policy", "binds", "allow"), orZero(p.Binds).Allow, 64, isHostPath, "an absolute path", `such as "/var/lib/data", or "/dev/nvidia*" for all that begin so`},
		{at("policy", "devices", "allow"), orZero(p.Devices).Allow, 64, isHostPath, "an absolute path", `such as "/dev/kvm", or "/dev/nvidia*" for all that begin so`},
		{at("policy", "ssh", "users"), orZero(p.SSH).Users, 32, hostUser.MatchString, "the name of a user", "small letters, digits, _ and -, at most 32 of them"},
	}
	for _, l := range lists {
		all = append(all, l.problems()...)
	}
	return all
}

// policyList is a list of a policy, and what its entries must be.
type policyList struct {
	at     []any
	values []string
	most   int
	valid  func(string) bool
	what   string
	remedy string
}

func (l policyList) problems() []Problem {
	var all []Problem
	if len(l.values) > l.most {
		all = append(all, Problem{l.at, strconv.Itoa(len(l.values)) + " entries are too many", "at most " + strconv.Itoa(l.most)})
	}
	for i, v := range l.values {
		where := append(slices.Clone(l.at), i)
		switch {
		case len(v) > maxPolicyText || !l.valid(v):
			all = append(all, Problem{where, jsonc.Quoted(v) + " is not " + l.what, l.remedy})
		case slices.Contains(l.values[:i], v):
			all = append(all, Problem{where, jsonc.Quoted(v) + " stands there twice", "take one of them out"})
		}
	}
	return all
}

// maxPolicyText bounds one entry of a policy; all of it has to fit into user data.
const maxPolicyText = 2048

func isHostPath(path string) bool {
	return hostPath.MatchString(path) && !slices.Contains(strings.Split(path, "/"), "..")
}

func isPublicKey(text string) bool {
	block, rest := pem.Decode([]byte(text))
	return block != nil && block.Type == "PUBLIC KEY" && strings.TrimSpace(string(rest)) == ""
}
