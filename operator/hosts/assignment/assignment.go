package assignment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/resource"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// MaxSize is how large an assignment may be, bytes: what the servers take.
const MaxSize = 1 << 20

// APIServer is the API server that a kubelet joins.
type APIServer struct {
	URL string
	CA  []byte // PEM
}

// Content is what is built: a version that is locked.
type Content struct {
	Template hostsv1.Template
	// ImageDigest is what the tag of the image was resolved to; empty: it was not.
	ImageDigest hostsv1.SHA256
}

// modes are those of assignments, as the wire has them.
var modes = map[hostsv1.AssignmentMode]nstancev1.MachineMode{
	hostsv1.ModePave:   nstancev1.MachineMode_MACHINE_MODE_PAVE,
	hostsv1.ModeRepave: nstancev1.MachineMode_MACHINE_MODE_REPAVE,
	hostsv1.ModeAdopt:  nstancev1.MachineMode_MACHINE_MODE_ADOPT,
	hostsv1.ModeReset:  nstancev1.MachineMode_MACHINE_MODE_RESET,
}

// Reset returns what a host is told to have it reset, by the status of its machine; wipe: directories
// that survive a repave go too.
func Reset(m *hostsv1.HostMachine, wipe bool) *nstancev1.MachineAssignment {
	out := frame(m, hostsv1.ModeReset)
	out.WipePersistent = wipe
	return out
}

// Make returns what a host is told to build, by the status of its machine, which says epoch and
// version. group is what the group of the instance sets of its Nodes; nil: nothing.
func Make(m *hostsv1.HostMachine, mode hostsv1.AssignmentMode, content Content, group *nstancev1.NodeSettings, api APIServer) (*nstancev1.MachineAssignment, error) {
	out := frame(m, mode)
	var err error
	if out.Template, err = template(content); err != nil {
		return nil, err
	}
	out.Node = settings(group)
	out.ApiServer = &nstancev1.MachineApiServer{Endpoint: api.URL, CaBundle: string(api.CA)}
	if size := proto.Size(out); size > MaxSize {
		return nil, fmt.Errorf("the assignment has %d bytes, more than %d: make the template smaller", size, MaxSize)
	}
	return out, nil
}

// scopes are how much of a machine is prepared, as the wire has them.
var scopes = map[hostsv1.PrebuildMode]nstancev1.MachinePrebuildScope{
	hostsv1.PrebuildImages: nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_IMAGES,
	hostsv1.PrebuildSlot:   nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT,
}

// Prebuild returns what a host is told to prepare: what Make would have it build of a version, without an epoch.
// secrets are those of the image, by name.
func Prebuild(m *hostsv1.HostMachine, of *hostsv1.MachinePrebuild, content Content, group *nstancev1.NodeSettings, api APIServer, secrets map[string][]byte) (*nstancev1.MachinePrebuild, error) {
	about := m.DeepCopy()
	about.Status.Repave = nil
	about.Status.Configuration = &hostsv1.ConfigurationStatus{Assigned: &hostsv1.AssignedVersion{VersionReference: of.VersionReference}}
	a, err := Make(about, "", content, group, api)
	if err != nil {
		return nil, err
	}
	a.Mode = nstancev1.MachineMode_MACHINE_MODE_PREBUILD
	return &nstancev1.MachinePrebuild{Assignment: a, Scope: scopes[of.Mode], PullSecrets: secrets}, nil
}

// frame is what every assignment says.
func frame(m *hostsv1.HostMachine, mode hostsv1.AssignmentMode) *nstancev1.MachineAssignment {
	a := m.Status.Configuration.Assigned
	out := &nstancev1.MachineAssignment{
		MachineName: m.Name, MachineUid: string(m.UID), Epoch: a.Epoch, Mode: modes[mode], NodeName: m.NodeName(), ProviderId: m.Spec.ProviderID,
		Configuration: &nstancev1.MachineConfigurationVersion{Name: string(a.Name), Version: a.Version, Uid: a.UID, Hash: string(a.Hash)},
		FailurePolicy: nstancev1.MachineFailurePolicy_MACHINE_FAILURE_POLICY_REVERT,
		KeepPods:      m.Annotations[hostsv1.AnnotationKeepPods] == "true",
	}
	if r := m.Status.Repave; r != nil {
		out.ExpectedNodeUid = r.ExpectedNodeUID
	}
	if m.Spec.FailurePolicy == hostsv1.FailureHold {
		out.FailurePolicy = nstancev1.MachineFailurePolicy_MACHINE_FAILURE_POLICY_HOLD
	}
	return out
}

// Overridden are the labels of a template that have another value in the group, which wins, sorted.
func Overridden(t *hostsv1.Template, group *nstancev1.NodeSettings) []string {
	var all []string
	for name, value := range t.Kubernetes.NodeLabels {
		if other, has := group.GetLabels()[name]; has && other != string(value) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// settings are those of a group.
func settings(of *nstancev1.NodeSettings) *nstancev1.MachineNodeSettings {
	if of == nil {
		return nil
	}
	taints := func(some []*nstancev1.NodeTaint) (all []*nstancev1.MachineTaint) {
		for _, t := range some {
			all = append(all, &nstancev1.MachineTaint{Key: t.GetKey(), Value: t.GetValue(), Effect: t.GetEffect()})
		}
		return all
	}
	return &nstancev1.MachineNodeSettings{
		Labels: maps.Clone(of.GetLabels()), Taints: taints(of.GetTaints()), StartupTaints: taints(of.GetStartupTaints()),
		Reserved: maps.Clone(of.GetReserved()), MaxPods: of.GetMaxPods(),
	}
}

// template is a template as the wire has it.
func template(c Content) (*nstancev1.MachineTemplate, error) {
	t := versions.WithDefaults(&c.Template)
	image, err := image(t.Image, c.ImageDigest)
	if err != nil {
		return nil, err
	}
	machine, err := machine(t.Machine)
	if err != nil {
		return nil, err
	}
	timeouts, err := timeouts(t.Timeouts)
	if err != nil {
		return nil, err
	}
	out := &nstancev1.MachineTemplate{Image: image, Kubernetes: kubernetes(t.Kubernetes), Machine: machine, Timeouts: timeouts}
	if h := t.Host; h != nil {
		out.Host = &nstancev1.MachineHostSettings{Sysctls: texts(h.Sysctls), KernelModules: h.KernelModules}
		for _, user := range h.SSHKeys {
			out.Host.SshKeys = append(out.Host.SshKeys, &nstancev1.MachineSshUser{User: user.User, Keys: words(user.Keys)})
		}
	}
	return out, nil
}

func image(i hostsv1.Image, digest hostsv1.SHA256) (*nstancev1.MachineImage, error) {
	switch {
	case i.OCI != nil:
		o := &nstancev1.MachineOciImage{Reference: i.OCI.Reference, Digest: string(i.OCI.Digest), PullSecret: string(i.OCI.PullSecret)}
		if o.Digest == "" {
			o.Digest = string(digest)
		}
		return &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Oci{Oci: o}}, nil
	case i.Archive != nil:
		return &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Archive{Archive: &nstancev1.MachineArchive{
			Url: string(i.Archive.URL), StorageKey: i.Archive.StorageKey, Sha256: string(i.Archive.SHA256),
		}}}, nil
	case i.Debootstrap != nil:
		d := i.Debootstrap
		return &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Debootstrap{Debootstrap: &nstancev1.MachineDebootstrap{
			Suite: d.Suite, Mirror: string(d.Mirror), Variant: d.Variant, Packages: d.Packages, Keyring: string(d.Keyring),
		}}}, nil
	}
	return nil, errors.New("the template has no image")
}

func kubernetes(k hostsv1.Kubernetes) *nstancev1.MachineKubernetes {
	out := &nstancev1.MachineKubernetes{
		Version: k.Version, NodeLabels: texts(k.NodeLabels), ClusterDns: words(k.ClusterDNS), ClusterDomain: k.ClusterDomain, KubeletConfig: k.KubeletConfig,
	}
	for _, t := range k.Taints {
		out.Taints = append(out.Taints, &nstancev1.MachineTaint{Key: t.Key, Value: string(t.Value), Effect: string(t.Effect)})
	}
	if a := k.Artifacts; a != nil {
		out.Artifacts = &nstancev1.MachineArtifacts{
			Kubelet: artifact(a.Kubelet), Containerd: artifact(a.Containerd), Runc: artifact(a.Runc), CniPlugins: artifact(a.CNIPlugins), Crictl: artifact(a.Crictl),
		}
	}
	return out
}

func artifact(a *hostsv1.Artifact) *nstancev1.MachineArtifact {
	if a == nil {
		return nil
	}
	return &nstancev1.MachineArtifact{Url: string(a.URL), Sha256: string(a.SHA256)}
}

// networks are the ways to the network, as the wire has them.
var networks = map[hostsv1.NetworkMode]nstancev1.MachineNetwork{
	hostsv1.NetworkHost: nstancev1.MachineNetwork_MACHINE_NETWORK_HOST,
	hostsv1.NetworkVeth: nstancev1.MachineNetwork_MACHINE_NETWORK_VETH,
}

func machine(m *hostsv1.NodeMachine) (*nstancev1.MachineSettings, error) {
	out := &nstancev1.MachineSettings{
		Network: networks[m.Network], Devices: words(m.Devices), Environment: texts(m.Environment), PullSecret: string(m.PullSecret),
	}
	for _, b := range m.Binds {
		out.Binds = append(out.Binds, &nstancev1.MachineBind{Source: string(b.Source), Target: string(b.Target), ReadOnly: b.ReadOnly, IfPresent: b.Optional})
	}
	for _, p := range m.Persist {
		out.Persist = append(out.Persist, &nstancev1.MachinePersist{Path: string(p.Path), Name: string(p.Name), WipeOnRepave: p.WipeOnRepave})
	}
	for _, u := range m.Units {
		out.Units = append(out.Units, &nstancev1.MachineUnit{Name: u.Name, Content: u.Content, Enable: u.Enable})
	}
	for _, f := range m.Files {
		mode, err := strconv.ParseUint(f.Mode, 8, 32)
		if err != nil {
			return nil, fmt.Errorf("machine.files of %s: mode %q: %w", f.Path, f.Mode, err)
		}
		out.Files = append(out.Files, &nstancev1.MachineFile{Path: string(f.Path), Content: f.Content, Mode: uint32(mode)})
	}
	for _, r := range m.Registries {
		of := &nstancev1.MachineRegistry{Host: r.Host}
		for _, mirror := range r.Mirrors {
			of.Mirrors = append(of.Mirrors, &nstancev1.MachineMirror{Url: string(mirror.URL), CaBundle: mirror.CABundle})
		}
		out.Registries = append(out.Registries, of)
	}
	var err error
	out.Limits, err = limits(m.Limits)
	return out, err
}

func limits(l *hostsv1.Limits) (*nstancev1.MachineLimits, error) {
	if l == nil {
		return nil, nil
	}
	out := &nstancev1.MachineLimits{}
	if l.MemoryMax != "" {
		q, err := resource.ParseQuantity(string(l.MemoryMax))
		if err != nil {
			return nil, fmt.Errorf("machine.limits.memoryMax %q: %w", l.MemoryMax, err)
		}
		out.MemoryMaxBytes = q.Value()
	}
	if l.CPUQuota != nil {
		out.CpuQuotaPercent = *l.CPUQuota
	}
	if l.TasksMax != nil {
		out.TasksMax = *l.TasksMax
	}
	return out, nil
}

func timeouts(t *hostsv1.Timeouts) (*nstancev1.MachineTimeouts, error) {
	var errs []error
	parse := func(name string, text hostsv1.StageTimeout) *durationpb.Duration {
		d, err := time.ParseDuration(string(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("timeouts.%s: %w", name, err))
		}
		return durationpb.New(d)
	}
	out := &nstancev1.MachineTimeouts{Prepare: parse("prepare", t.Prepare), Stop: parse("stop", t.Stop), Boot: parse("boot", t.Boot), Join: parse("join", t.Join)}
	return out, errors.Join(errs...)
}

// texts and words are values of types of ours as plain strings.
func texts[V ~string](of map[string]V) map[string]string {
	if of == nil {
		return nil
	}
	all := make(map[string]string, len(of))
	for key, value := range of {
		all[key] = string(value)
	}
	return all
}

func words[V ~string](of []V) []string {
	var all []string
	for _, value := range of {
		all = append(all, string(value))
	}
	return all
}
