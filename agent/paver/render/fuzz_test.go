package render_test

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/render"
)

// seeds are texts that try to become more than they are.
var seeds = []string{
	"", "a", "/etc/x", "/etc/../x", "x\nCapability=all", "x\r\n[Files]\nBind=/", "a:b", `a\`, `"`, "'", "%i $HOME ${X} `id` $(id)", "\x00", "é\u2028x", "-a", "a b",
	"maxPods: 3\n", "authentication: {}\n", "x.service", "[Install]\nWantedBy=a.target ../b.target\n", "vm.swappiness", "/dev/kvm", "/dev/*", "https://m.example.com/v2/x",
	"ssh-ed25519 AAAA", "..", "/", "//", "/dev/console\n", "kernel.core_pattern", "a=b,c=d", "\ufeffmaxPods: 1", "a: &a [*a]", "? [a]: b", "<<: {a: 1}",
}

// stuffed is an assignment with two texts in every field that may have one.
func stuffed(a, b string) *nstancev1.MachineAssignment {
	return set(func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) {
		t.Kubernetes.NodeLabels, t.Kubernetes.Taints = map[string]string{a: b}, []*nstancev1.MachineTaint{{Key: a, Value: b, Effect: "NoSchedule"}}
		t.Machine = &nstancev1.MachineSettings{
			Binds:       []*nstancev1.MachineBind{{Source: a, Target: b}},
			Persist:     []*nstancev1.MachinePersist{{Path: a, Name: b}},
			Devices:     []string{a},
			Environment: map[string]string{a: b},
			Units:       []*nstancev1.MachineUnit{{Name: a, Content: b, Enable: true}},
			Files:       []*nstancev1.MachineFile{{Path: a, Content: b, Mode: 0o644}},
			Registries:  []*nstancev1.MachineRegistry{{Host: a, Mirrors: []*nstancev1.MachineMirror{{Url: b}}}},
		}
		t.Host = &nstancev1.MachineHostSettings{
			Sysctls: map[string]string{a: b}, KernelModules: []string{a}, SshKeys: []*nstancev1.MachineSshUser{{User: a, Keys: []string{b}}},
		}
	})
}

// each returns assignments with the texts in one field each, so that one that is refused does not
// hide the others.
func each(a, b string) []*nstancev1.MachineAssignment {
	all := stuffed(a, b)
	with := func(change func(t *nstancev1.MachineTemplate)) *nstancev1.MachineAssignment {
		return set(func(_ *nstancev1.MachineAssignment, t *nstancev1.MachineTemplate) { change(t) })
	}
	m, h, k := all.GetTemplate().GetMachine(), all.GetTemplate().GetHost(), all.GetTemplate().GetKubernetes()
	return []*nstancev1.MachineAssignment{
		all,
		set(func(x *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { x.NodeName, x.ProviderId = a, b }),
		set(func(x *nstancev1.MachineAssignment, _ *nstancev1.MachineTemplate) { x.ApiServer.Endpoint = a }),
		with(func(t *nstancev1.MachineTemplate) { t.Kubernetes.NodeLabels = k.GetNodeLabels() }),
		with(func(t *nstancev1.MachineTemplate) { t.Kubernetes.Taints = k.GetTaints() }),
		with(func(t *nstancev1.MachineTemplate) { t.Machine.Binds = m.GetBinds() }),
		with(func(t *nstancev1.MachineTemplate) { t.Machine.Persist = m.GetPersist() }),
		with(func(t *nstancev1.MachineTemplate) { t.Machine.Devices = m.GetDevices() }),
		with(func(t *nstancev1.MachineTemplate) { t.Machine.Environment = m.GetEnvironment() }),
		with(func(t *nstancev1.MachineTemplate) { t.Machine.Environment = map[string]string{"A": b} }),
		with(func(t *nstancev1.MachineTemplate) { t.Machine.Units = m.GetUnits() }),
		with(func(t *nstancev1.MachineTemplate) { t.Machine.Files = m.GetFiles() }),
		with(func(t *nstancev1.MachineTemplate) { t.Machine.Registries = m.GetRegistries() }),
		with(func(t *nstancev1.MachineTemplate) { t.Host.Sysctls = h.GetSysctls() }),
		with(func(t *nstancev1.MachineTemplate) { t.Host.Sysctls = map[string]string{"vm.swappiness": b} }),
		with(func(t *nstancev1.MachineTemplate) { t.Host.KernelModules = h.GetKernelModules() }),
		with(func(t *nstancev1.MachineTemplate) { t.Host.SshKeys = h.GetSshKeys() }),
	}
}

var (
	nspawnLine  = regexp.MustCompile(`^(\[(Exec|Network|Files)\]|Boot=yes|Capability=all|PrivateUsers=no|SystemCallFilter=@keyring bpf|KillSignal=SIGRTMIN\+3|ResolvConf=off|Hostname=[a-z0-9.-]+|Environment=("[A-Za-z_][A-Za-z0-9_]*=[^"]*"|'[A-Za-z_][A-Za-z0-9_]*=[^']*')|VirtualEthernet=no|Bind(ReadOnly)?=/.*:/.*|)$`)
	dropInLine  = regexp.MustCompile(`^(\[(Unit|Service)\]|StartLimitIntervalSec=0|Environment=SYSTEMD_NSPAWN_(UNIFIED_HIERARCHY=1|API_VFS_WRITABLE=network)|ExecStartPre=-/usr/bin/machinectl terminate node-a|Restart=on-failure|RestartSec=10|Delegate=yes|TasksMax=infinity|TimeoutStopSec=180|DeviceAllow=/dev/[^ ]+ rwm|)$`)
	sysctlLine  = regexp.MustCompile(`^-?[a-z][A-Za-z0-9_./-]* = [^\n]+$`)
	kubeletLine = regexp.MustCompile(`^(\[(Unit|Service)\]|(Description|Documentation|Wants|After|StartLimitIntervalSec|Restart|RestartSec)=[^\n]*|ExecStart=kubelet \\|  "--[^\n]*" ?\\?|)$`)
)

// FuzzRender: whatever stands in an assignment, it stays what it is: a path in its place, a line
// of one file, a word of one command.
func FuzzRender(f *testing.F) {
	for _, a := range seeds {
		for _, b := range []string{a, "/etc/x"} {
			f.Add(a, b)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, assigned := range each(a, b) {
			h := render.Host{Machine: "node-a", Paths: map[string]string{}, SSHUsers: []string{a}}
			for _, q := range render.Wanted(assigned.GetTemplate()) {
				h.Paths[q.Path] = q.Path
			}
			plan, err := render.Render(assigned, h, nil)
			var invalid *render.Invalid
			if err != nil && (!errors.As(err, &invalid) || len(invalid.Problems) == 0 || len(plan.Files) > 0) {
				t.Fatalf("%v is not a list of problems alone", err)
			}
			if again, _ := render.Render(assigned, h, nil); text(plan) != text(again) {
				t.Fatalf("equal arguments gave different files:\n%s", cmp.Diff(text(plan), text(again)))
			}
			if err == nil {
				confined(t, plan)
			}
		}
	})
}

// confined checks that nothing in a plan is more than it should be.
func confined(t *testing.T, plan render.Plan) {
	t.Helper()
	fixed := append(render.HostPaths("node-a"), render.SSHDir, path.Dir(render.DropIn("node-a")))
	for i, f := range plan.Files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.ContainsAny(f.Path, "\n\x00") || slices.Contains(strings.Split(f.Path, "/"), "..") {
			t.Errorf("the path of %v leads elsewhere", f)
		}
		if i > 0 && f.Place == plan.Files[i-1].Place && f.Path <= plan.Files[i-1].Path {
			t.Errorf("%v is not in order", f)
		}
		if f.Place == render.OnHost && !slices.Contains(fixed, f.Path) && !slices.Contains(fixed, path.Dir(f.Path)) {
			t.Errorf("%v is no path of ours", f)
		}
	}
	for file, line := range map[string]*regexp.Regexp{
		render.NspawnFile("node-a"): nspawnLine, render.DropIn("node-a"): dropInLine, render.SysctlFile: sysctlLine,
	} {
		lines(t, content(t, plan, render.OnHost, file), line)
	}
	lines(t, content(t, plan, render.Slot, "/etc/systemd/system/kubelet.service"), kubeletLine)
	if n := len(plan.Sysctls); n != strings.Count(content(t, plan, render.OnHost, render.SysctlFile), "\n") {
		t.Errorf("%d parameters are not as many lines", n)
	}
	if n := len(plan.Modules); n != strings.Count(content(t, plan, render.OnHost, render.ModulesFile), "\n") {
		t.Errorf("%d modules are not as many lines", n)
	}
	for _, s := range plan.Sysctls {
		if path.Clean(s.Path) != s.Path || strings.HasPrefix(s.Path, ".") || strings.HasPrefix(s.Path, "/") {
			t.Errorf("parameter %q leads to %q", s.Name, s.Path)
		}
	}
}

func lines(t *testing.T, content string, allowed *regexp.Regexp) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(content, "\n"), "\n") {
		if !allowed.MatchString(line) {
			t.Errorf("line %q is more than it should be", line)
		}
	}
}

// FuzzKubeletConfig: what a template sets is in the file, what it must not set is as we have it,
// and the file is one that others read as we do.
func FuzzKubeletConfig(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Add("a: {b: [1, {c: yes}], d: \"no\"}\nauthentication2: x\nreadOnlyPort: 10255\n")
	f.Fuzz(func(t *testing.T, config string) {
		a := set(kubeletConfig(config))
		plan, err := render.Render(a, host(), nil)
		if err != nil {
			return
		}
		var got, own map[string]any
		if err := yaml.Unmarshal([]byte(content(t, plan, render.Slot, render.KubeletConfig)), &got); err != nil {
			t.Fatalf("not YAML: %v", err)
		}
		if err := yaml.Unmarshal([]byte(content(t, rendered(t, assignment(), host(), nil), render.Slot, render.KubeletConfig)), &own); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"authentication", "authorization", "rotateCertificates", "apiVersion", "kind"} {
			if diff := cmp.Diff(own[name], got[name]); diff != "" {
				t.Errorf("%s was changed:\n%s", name, diff)
			}
		}
		var template map[string]any
		if err := yaml.Unmarshal([]byte(config), &template); err != nil {
			t.Skip("the template's configuration has texts that are no names for others")
		}
		for name, value := range template {
			if _, merged := value.(map[string]any); !merged && !cmp.Equal(got[name], value) {
				t.Errorf("%s is %v, and %v in the template", name, got[name], value)
			}
		}
	})
}
