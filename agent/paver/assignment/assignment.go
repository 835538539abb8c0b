// Package assignment is what a host was told to build: what nstance-paver decides by, read out of
// the message of the contract, and that message beside it.
//
// An assignment holds no secret. The credential that comes with it is kept apart. What its
// template says is not interpreted here; that is the business of render and policy.
package assignment

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// MaxSize is how large an assignment may be, in bytes of JSON.
const MaxSize = 1536 << 10

// Mode says what is asked for.
type Mode string

// Modes.
const (
	Pave   Mode = "Pave"   // the first node of the host
	Repave Mode = "Repave" // the Node was deleted: its kubelet is stopped at once
	Adopt  Mode = "Adopt"  // the host runs this content already; nothing is built
	Reset  Mode = "Reset"  // remove all that was built

	// Prebuild prepares what a later one builds. It has no epoch.
	Prebuild Mode = "Prebuild"
)

var modes = map[nstancev1.MachineMode]Mode{
	nstancev1.MachineMode_MACHINE_MODE_PAVE:   Pave,
	nstancev1.MachineMode_MACHINE_MODE_REPAVE: Repave,
	nstancev1.MachineMode_MACHINE_MODE_ADOPT:  Adopt,
	nstancev1.MachineMode_MACHINE_MODE_RESET:  Reset,

	nstancev1.MachineMode_MACHINE_MODE_PREBUILD: Prebuild,
}

// Configuration names a version of a machine configuration. Hash is that of its template.
type Configuration struct {
	Name    string `json:"name,omitempty"`
	Version int32  `json:"version,omitempty"`
	UID     string `json:"uid,omitempty"`
	Hash    string `json:"hash,omitempty"`
}

// String is the name of the version's object, such as gpu-v2; empty without a name.
func (c Configuration) String() string {
	if c.Name == "" {
		return ""
	}
	return fmt.Sprintf("%s-v%d", c.Name, c.Version)
}

// Message is the configuration in the words of the contract; nil for the zero one.
func (c Configuration) Message() *nstancev1.MachineConfigurationVersion {
	if c == (Configuration{}) {
		return nil
	}
	return &nstancev1.MachineConfigurationVersion{Name: c.Name, Version: c.Version, Uid: c.UID, Hash: c.Hash}
}

// Assignment is one order to a host. Its epoch grows with every assignment of a machine.
type Assignment struct {
	MachineName   string        `json:"machineName,omitempty"`
	MachineUID    string        `json:"machineUID,omitempty"`
	NodeName      string        `json:"nodeName,omitempty"`
	Epoch         int64         `json:"epoch"`
	Configuration Configuration `json:"configuration,omitzero"`
	Mode          Mode          `json:"mode"`
	Hold          bool          `json:"hold,omitempty"`     // what does not join is left for inspection, not reverted
	KeepPods      bool          `json:"keepPods,omitempty"` // the Pods of the old machine run until the switch
	Wipe          bool          `json:"wipe,omitempty"`     // with Reset: directories that survive go too
	Timeouts      Timeouts      `json:"timeouts,omitzero"`
	// Wire is the whole message, in the JSON of its kind.
	Wire json.RawMessage `json:"wire,omitempty"`
}

// Timeouts are those of the stages; zero ones take the defaults.
type Timeouts struct {
	Prepare time.Duration `json:"prepare,omitzero"` // default 20m
	Stop    time.Duration `json:"stop,omitzero"`    // default 3m
	Boot    time.Duration `json:"boot,omitzero"`    // default 2m
	Join    time.Duration `json:"join,omitzero"`    // default 10m
}

// WithDefaults returns the time-outs without zero ones.
func (t Timeouts) WithDefaults() Timeouts {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&t.Prepare, 20*time.Minute)
	set(&t.Stop, 3*time.Minute)
	set(&t.Boot, 2*time.Minute)
	set(&t.Join, 10*time.Minute)
	return t
}

var (
	nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	hashForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// From reads a message. The error reports everything that keeps a host from deciding about it;
// whether it can be built shows later.
func From(m *nstancev1.MachineAssignment) (Assignment, error) {
	c := m.GetConfiguration()
	a := Assignment{
		MachineName: m.GetMachineName(), MachineUID: m.GetMachineUid(), NodeName: m.GetNodeName(), Epoch: m.GetEpoch(),
		Configuration: Configuration{c.GetName(), c.GetVersion(), c.GetUid(), c.GetHash()},
		Mode:          modes[m.GetMode()],
		Hold:          m.GetFailurePolicy() == nstancev1.MachineFailurePolicy_MACHINE_FAILURE_POLICY_HOLD,
		KeepPods:      m.GetKeepPods(), Wipe: m.GetWipePersistent(),
	}
	t := m.GetTemplate().GetTimeouts()
	a.Timeouts = Timeouts{duration(t.GetPrepare()), duration(t.GetStop()), duration(t.GetBoot()), duration(t.GetJoin())}
	wire, err := protojson.Marshal(m)
	if err != nil {
		return Assignment{}, fmt.Errorf("read assignment: %w", err)
	}
	a.Wire = wire
	if err := a.Validate(); err != nil {
		return Assignment{}, fmt.Errorf("read assignment: %w", err)
	}
	return a, nil
}

func duration(d *durationpb.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.AsDuration()
}

// Message is the whole message.
func (a Assignment) Message() (*nstancev1.MachineAssignment, error) {
	m := &nstancev1.MachineAssignment{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(a.Wire, m); err != nil {
		return nil, fmt.Errorf("read assignment of epoch %d: %w", a.Epoch, err)
	}
	return m, nil
}

// Parse reads the JSON of a message.
func Parse(text []byte) (Assignment, error) {
	if len(text) > MaxSize {
		return Assignment{}, fmt.Errorf("read assignment: %d bytes are more than %d", len(text), MaxSize)
	}
	m := &nstancev1.MachineAssignment{}
	if err := protojson.Unmarshal(text, m); err != nil {
		return Assignment{}, fmt.Errorf("read assignment: %w", err)
	}
	return From(m)
}

// Validate reports everything that is wrong, with the names of the JSON fields.
func (a Assignment) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case a.Mode == Prebuild && a.Epoch != 0:
		bad("epoch: a prebuild has none, and not %d", a.Epoch)
	case a.Mode != Prebuild && a.Epoch < 1:
		bad("epoch: %d is less than 1", a.Epoch)
	}
	switch a.Mode {
	case Pave, Repave, Adopt, Prebuild:
		if len(a.NodeName) > 253 || !nodeName.MatchString(a.NodeName) {
			bad("nodeName: %.60q is not a DNS name in lower case", a.NodeName)
		}
		if !hashForm.MatchString(a.Configuration.Hash) {
			bad("configuration.hash: %.80q is not sha256: and 64 hexadecimal digits", a.Configuration.Hash)
		}
	case Reset:
	default:
		bad("mode: must be one of Pave, Repave, Adopt, Reset and Prebuild")
	}
	if len(a.MachineName) > 253 || len(a.MachineUID) > 128 || len(a.Configuration.Name) > 253 || len(a.Configuration.UID) > 128 {
		bad("machineName, machineUid, configuration: a name or UID is longer than Kubernetes has any")
	}
	errs = append(errs, a.Timeouts.validate()...)
	if len(a.Wire) > MaxSize {
		bad("template: %d bytes are more than %d", len(a.Wire), MaxSize)
	}
	return errors.Join(errs...)
}

func (t Timeouts) validate() (errs []error) {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"prepare", t.Prepare}, {"stop", t.Stop}, {"boot", t.Boot}, {"join", t.Join}} {
		if d.value != 0 && (d.value < 10*time.Second || d.value > 2*time.Hour) {
			errs = append(errs, fmt.Errorf("template.timeouts.%s: %v is out of range, from 10s to 2h", d.name, d.value))
		}
	}
	return errs
}
