package cli_test

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/admin/cli"
	"nstance.dev/admin/kubeclient/kubetest"
	"nstance.dev/admin/shardclient/shardtest"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
)

// at is so long after the beginning.
func at(d time.Duration) metav1.Time { return metav1.NewTime(shardtest.Epoch.Add(d).UTC()) }

func template(kubelet, motd string) hostsv1.Template {
	return hostsv1.Template{
		Image:      hostsv1.Image{Type: hostsv1.ImageOCI, OCI: &hostsv1.OCIImage{Reference: "registry.example/node:1"}},
		Kubernetes: hostsv1.Kubernetes{Version: kubelet},
		Machine:    &hostsv1.NodeMachine{Files: []hostsv1.File{{Path: "/etc/motd", Content: motd}}},
	}
}

func configuration(name string, priority int32, selects map[string]hostsv1.LabelValue, t hostsv1.Template) *hostsv1.MachineConfiguration {
	c := &hostsv1.MachineConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: at(0)},
		Spec:       hostsv1.MachineConfigurationSpec{Template: t, Priority: priority, MachineSelector: &hostsv1.MachineSelector{MatchLabels: selects}},
	}
	c.Status.Conditions = []metav1.Condition{{
		Type: hostsv1.ConditionVersionsSynced, Status: metav1.ConditionTrue, Reason: hostsv1.ReasonSynced, Message: "the newest version holds the template", LastTransitionTime: at(time.Hour),
	}}
	return c
}

func versionOf(c *hostsv1.MachineConfiguration, n int32, locked bool, t hostsv1.Template) *hostsv1.MachineConfigurationVersion {
	yes := true
	v := &hostsv1.MachineConfigurationVersion{
		ObjectMeta: metav1.ObjectMeta{
			Name: versions.Name(c.Name, n), CreationTimestamp: at(time.Duration(n) * time.Hour), Labels: map[string]string{hostsv1.LabelConfiguration: c.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: hostsv1.GroupVersion.String(), Kind: hostsv1.KindMachineConfiguration, Name: c.Name, UID: c.UID, Controller: &yes}},
		},
		Spec:   hostsv1.MachineConfigurationVersionSpec{ConfigurationName: hostsv1.ConfigurationName(c.Name), Version: n, Template: t},
		Status: hostsv1.MachineConfigurationVersionStatus{Deployed: locked, Hash: versions.Hash(&t)},
	}
	if locked {
		when := at(time.Duration(n)*time.Hour + time.Minute)
		v.Status.DeployedAt, v.Status.FirstMachine, v.Status.Machines, v.Status.AppliedMachines, v.Status.ReadyMachines = &when, "m1", 1, 1, 1
	}
	return v
}

// hostsConsole is a console at a cluster with three configurations and four machines: m1 runs an old version of
// gpu, m2 names base although gpu selects it, m3 waits, and m4 stays with base, to which it was assigned.
func hostsConsole(t *testing.T) (*console, *kubetest.Server) {
	t.Helper()
	s := kubetest.New(t)
	old, now := template("v1.36.1", "hello\nworld\n"), template("v1.36.3", "hello\nthere\n")
	gpu := configuration("gpu", 10, map[string]hostsv1.LabelValue{"pool": "gpu"}, now)
	gpu.Status.LatestVersion, gpu.Status.EditableVersion, gpu.Status.LatestDeployedVersion = 2, 2, 1
	gpu.Status.Machines = &hostsv1.ConfigurationMachines{Selected: 1, Applied: 1, Outdated: 1}
	base, third := configuration("base", 0, map[string]hostsv1.LabelValue{}, old), configuration("gpu2", 10, map[string]hostsv1.LabelValue{"pool": "gpu"}, now)
	base.Status.LatestVersion, base.Status.LatestDeployedVersion = 1, 1
	for _, c := range []*hostsv1.MachineConfiguration{gpu, base, third} {
		s.Put(c)
	}
	s.Put(versionOf(gpu, 1, true, old))
	s.Put(versionOf(gpu, 2, false, now))
	s.Put(versionOf(base, 1, true, old))
	machine := func(name string, labels map[string]string) *hostsv1.HostMachine {
		return &hostsv1.HostMachine{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: at(40 * time.Hour)},
			Spec:       hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual},
			Status:     hostsv1.HostMachineStatus{Phase: hostsv1.PhasePending},
		}
	}
	reference := func(c *hostsv1.MachineConfiguration, n int32) hostsv1.VersionReference {
		return hostsv1.VersionReference{Name: hostsv1.ConfigurationName(c.Name), Version: n, UID: string(c.UID)}
	}
	when := at(48 * time.Hour)
	m1 := machine("m1", map[string]string{"pool": "gpu"})
	m1.Spec.Instance = &hostsv1.InstanceReference{Shard: "us-1a", Tenant: "default", Group: "gpu", ID: "knd068a3cp3thz5z2mv1gejwftabc"}
	m1.Spec.Provisioner = hostsv1.ProvisionerNstance
	desired := reference(gpu, 2)
	m1.Status.Configuration = &hostsv1.ConfigurationStatus{
		Source: hostsv1.SourceSelector, Desired: &desired,
		Assigned: &hostsv1.AssignedVersion{VersionReference: reference(gpu, 1), Epoch: 3, At: &when},
		Applied:  &hostsv1.AppliedVersion{VersionReference: reference(gpu, 1), At: &when},
	}
	m1.Status.Conditions = []metav1.Condition{
		{Type: hostsv1.ConditionConfigurationPending, Status: metav1.ConditionFalse, Reason: hostsv1.ReasonResolved, Message: "MachineConfiguration gpu, version 2: its newest version", LastTransitionTime: when},
		{Type: hostsv1.ConditionRepavePending, Status: metav1.ConditionTrue, Reason: hostsv1.ReasonOutdated, Message: "the node runs version 1 of gpu; a repave builds version 2 of gpu", LastTransitionTime: when},
	}
	m2 := machine("m2", map[string]string{"pool": "gpu"})
	m2.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "base"}
	desired2 := reference(base, 1)
	m2.Status.Configuration = &hostsv1.ConfigurationStatus{Source: hostsv1.SourceExplicit, Desired: &desired2}
	m3 := machine("m3", nil)
	m3.Spec.ConfigurationRef = &hostsv1.ConfigurationReference{Name: "bass"}
	m3.Status.Phase = hostsv1.PhaseAwaitingConfiguration
	m3.Status.Conditions = []metav1.Condition{{
		Type: hostsv1.ConditionConfigurationPending, Status: metav1.ConditionTrue, Reason: hostsv1.ReasonConfigurationNotFound,
		Message: "spec.configurationRef names MachineConfiguration bass, which does not exist; create it, or name another one", LastTransitionTime: when,
	}}
	m4 := machine("m4", map[string]string{"pool": "gpu"})
	m4.Status.Configuration = &hostsv1.ConfigurationStatus{Source: hostsv1.SourceSelector, Desired: &desired2, Assigned: &hostsv1.AssignedVersion{VersionReference: desired2, Epoch: 1}}
	for _, m := range []*hostsv1.HostMachine{m1, m2, m3, m4} {
		s.Put(m)
	}
	c := newConsole(t)
	c.env["KUBECONFIG"] = s.Kubeconfig(t)
	return c, s
}

func TestHostCommandsInEveryFormat(t *testing.T) {
	c, _ := hostsConsole(t)
	for name, args := range map[string][]string{
		"machine-list": {"machine", "list"}, "machine-get": {"machine", "get", "m1"},
		"mcfg-list": {"mcfg", "list"}, "mcfg-get": {"mcfg", "get", "gpu"}, "mcfg-history": {"mcfg", "history", "gpu"}, "mcfg-diff": {"mcfg", "diff", "gpu", "1", "v2"},
	} {
		for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
			t.Run(name+"/"+format, func(t *testing.T) {
				golden(t, name+"."+format, c.ok(t, append(slices.Clone(args), "-o", format)...))
			})
		}
	}
}

// M8, M9, M12, M13: a machine says what it waits for, and each configuration that selects a machine without
// getting it says why.
func TestM12_WhatMachinesWaitForIsSaid(t *testing.T) {
	c, _ := hostsConsole(t)
	for _, row := range []struct{ args, want string }{
		{"machine get m3", "waits: ConfigurationNotFound: spec.configurationRef names MachineConfiguration bass, which does not exist; create it"},
		{"machine list -o wide", "create it, or name another one"},
		{"machine get m1", "gpu, priority 10: it gets the machine"},
		{"machine get m1", "gpu2, priority 10: loses: gpu has the same priority, and its name comes first"},
		{"machine get m1", "base, priority 0: loses: gpu has priority 10"},
		{"machine get m1", "a repave builds gpu-v2"},
		{"machine get m2", "gpu, priority 10: loses: spec.configurationRef names base"},
		{"machine get m4", "gpu, priority 10: loses: base was assigned before, which selectors do not change; to choose again: kubectl annotate hm m4 hosts.nstance.dev/reselect="},
		{"mcfg get gpu", "machines that it selects: 1"},
		{"mcfg get gpu", "m1: runs gpu-v1, a repave builds gpu-v2"},
		{"mcfg get gpu", "m2: spec.configurationRef names base"},
		{"mcfg get gpu2", "m1: gpu has the same priority, and its name comes first"},
		{"machine list -l pool=gpu -o name", "m1\nm2\nm4\n"},
		{"mcfg diff gpu 1", "~ kubernetes.version: v1.36.1 -> v1.36.3"},
		{"mcfg diff gpu gpu-v2", ""},
	} {
		if got := c.ok(t, strings.Fields(row.args)...); !strings.Contains(got, row.want) {
			t.Errorf("%s has no %q:\n%s", row.args, row.want, got)
		}
	}
	if got := c.ok(t, "mcfg", "diff", "gpu", "2"); got != "" {
		t.Errorf("the newest version and the template differ: %q", got)
	}
	if got := c.ok(t, "machine", "list", "-l", "pool=none", "-o", "name"); got != "" {
		t.Errorf("a selector that matches none lists %q", got)
	}
}

func TestHostCommandsNameTheRemedy(t *testing.T) {
	for name, row := range map[string]struct {
		refuse int
		env    map[string]string
		code   int
		args   string
		want   []string
	}{
		"no such machine":       {args: "machine get m9", want: []string{"m9 not found", "nstance-admin machine list"}},
		"no such version":       {args: "mcfg diff gpu 1 9", want: []string{"version 9 of gpu", "gpu-v9 not found"}},
		"no such configuration": {args: "mcfg history none", want: []string{"none not found", "nstance-admin mcfg list"}},
		"no kinds":              {refuse: http.StatusNotFound, args: "machine list", want: []string{"hosts.enabled"}},
		"no right":              {refuse: http.StatusForbidden, args: "machine list", want: []string{"hosts-view"}},
		"nobody":                {refuse: http.StatusUnauthorized, args: "mcfg list", want: []string{"log in again"}},
		"no kubeconfig":         {env: map[string]string{"KUBECONFIG": "/nowhere/kubeconfig"}, args: "mcfg list", want: []string{"kubeconfig", "--kubeconfig, KUBECONFIG or --context"}},
		"no such file":          {args: "mcfg list --kubeconfig /nowhere/else", want: []string{"/nowhere/else"}},
		"no such context":       {args: "mcfg list --context three", want: []string{"three"}},
		"no number":             {code: cli.ExitUsage, args: "mcfg diff gpu newest", want: []string{`version "newest" must be a number from 1, such as 4 or gpu-v4`}},
		"no time":               {code: cli.ExitUsage, args: "mcfg list --timeout 0s", want: []string{"--timeout"}},
		"no selector":           {code: cli.ExitUsage, args: "machine list -l a=b=c", want: []string{"--selector"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := hostsConsole(t)
			s.Refuse(row.refuse)
			for key, value := range row.env {
				c.env[key] = value
			}
			got := c.fails(t, max(row.code, cli.ExitFailed), strings.Fields(row.args)...)
			for _, want := range row.want {
				if !strings.Contains(got, want) {
					t.Errorf("errors are %q, want %q", got, want)
				}
			}
		})
	}
}

func TestHostCommandsReadKubeconfigs(t *testing.T) {
	c, s := hostsConsole(t)
	c.ok(t, "mcfg", "list", "--context", "two")
	c.env["KUBECONFIG"] = "/nowhere/at-all"
	c.ok(t, "mcfg", "list", "--kubeconfig", s.Kubeconfig(t))
	c.env["KUBECONFIG"] = "/nowhere/at-all" + string(filepath.ListSeparator) + s.Kubeconfig(t)
	c.ok(t, "mcfg", "list")
}

func TestHostCommandsFollowChanges(t *testing.T) {
	c, s := hostsConsole(t)
	c.out.wrote = make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() { ended <- c.run(ctx, "machine", "list", "--watch", "-o", "name") }()
	wait := func(lines int) {
		for range lines {
			<-c.out.wrote
		}
	}
	wait(4)
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m5"}}
	<-s.Opened()
	s.Put(m)
	wait(1)
	s.EndWatches()
	s.Delete(m) // unseen: no watch is open
	wait(1)
	<-s.Opened()
	s.Put(&hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "m6"}})
	wait(1)
	cancel()
	if code := <-ended; code != cli.ExitOK {
		t.Errorf("exit code %d; errors:\n%s", code, c.err.String())
	}
	if got, want := c.out.String(), "m1\nm2\nm3\nm4\nm5\nm5\nm6\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestHostCommandsSayWhatHappened(t *testing.T) {
	c, s := hostsConsole(t)
	c.out.wrote = make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() { ended <- c.run(ctx, "mcfg", "get", "gpu", "--watch") }()
	<-s.Opened()
	gpu := configuration("gpu", 11, nil, template("v1.36.3", ""))
	s.Put(gpu)
	s.Put(configuration("base", 1, nil, template("v1.36.3", "")))
	s.Delete(gpu)
	for range 4 { // a header, and three events
		<-c.out.wrote
	}
	cancel()
	<-ended
	got := strings.Join(strings.Fields(c.out.String()), " ")
	for _, want := range []string{"EVENT", "ADDED gpu", "MODIFIED gpu", "DELETED gpu"} {
		if !strings.Contains(got, want) {
			t.Errorf("printed\n%s\nwant %q", got, want)
		}
	}
	if strings.Contains(got, "base") {
		t.Errorf("another configuration is printed:\n%s", got)
	}
}

func TestHostCommandsCompleteNames(t *testing.T) {
	c, s := hostsConsole(t)
	for args, want := range map[string]string{
		"__complete machine get ": "m1\tPending", "__complete mcfg get ": "gpu2", "__complete mcfg diff ": "base", "__complete mcfg history ": "gpu",
	} {
		if got := c.ok(t, append(strings.Fields(args), "")...); !strings.Contains(got, want) {
			t.Errorf("%s offers %q, want %q", args, got, want)
		}
	}
	s.Refuse(http.StatusForbidden)
	if got := c.ok(t, "__complete", "mcfg", "get", ""); !strings.Contains(got, ":1") {
		t.Errorf("where the server refuses, %q is offered", got)
	}
}
