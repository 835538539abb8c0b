package proxmoxfake_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	proxmox "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver/drivertest/wire"
)

// bench is a cluster and a client of it in a bubble.
type bench struct {
	*testing.T
	*proxmoxfake.Cloud
	api *proxmox.Client
}

// inBubble runs a test over a cluster, in fake time.
func inBubble(t *testing.T, opts proxmoxfake.Options, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cloud := proxmoxfake.New(opts)
		t.Cleanup(cloud.Close)
		test(&bench{t, cloud, client(cloud, proxmoxfake.DefaultToken)})
	})
}

func client(cloud *proxmoxfake.Cloud, token proxmoxfake.Token) *proxmox.Client {
	return proxmox.NewClient("http://pve.invalid/api2/json",
		proxmox.WithHTTPClient(&http.Client{Transport: wire.RoundTripper(cloud)}),
		proxmox.WithAPIToken(token.ID, token.Secret))
}

// call makes a raw call and returns the text of its error, if any.
func (b *bench) call(method, path string, params map[string]any, into any) string {
	b.Helper()
	ctx := b.Context()
	var err error
	switch method {
	case http.MethodGet:
		err = b.api.GetWithParams(ctx, path, params, into)
	case http.MethodPost:
		err = b.api.Post(ctx, path, params, into)
	case http.MethodPut:
		err = b.api.Put(ctx, path, params, into)
	case http.MethodDelete:
		err = b.api.DeleteWithParams(ctx, path, params, into)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// begin starts a task.
func (b *bench) begin(method, path string, params map[string]any) *proxmox.Task {
	b.Helper()
	var upid proxmox.UPID
	if problem := b.call(method, path, params, &upid); problem != "" {
		b.Fatalf("%s %s: %s", method, path, problem)
	}
	return proxmox.NewTask(upid, b.api)
}

// end waits for a task and returns its exit status.
func (b *bench) end(task *proxmox.Task) string {
	b.Helper()
	if err := task.Wait(b.Context(), 100*time.Millisecond, time.Hour); err != nil {
		b.Fatal(err)
	}
	return task.ExitStatus
}

// do does what a task does, and fails if that fails.
func (b *bench) do(method, path string, params map[string]any) {
	b.Helper()
	if exit := b.end(b.begin(method, path, params)); exit != "OK" {
		b.Fatalf("%s %s: task ended with %q", method, path, exit)
	}
}

// clone makes a machine from the template of node pve1.
func (b *bench) clone(vmid int, name string) {
	b.Helper()
	b.do(http.MethodPost, "/nodes/pve1/qemu/9001/clone", map[string]any{"newid": vmid, "name": name})
}

func (b *bench) vm(vmid int) *proxmox.VirtualMachine {
	b.Helper()
	node, err := b.api.Node(b.Context(), "pve1")
	if err != nil {
		b.Fatal(err)
	}
	vm, err := node.VirtualMachine(b.Context(), vmid)
	if err != nil {
		b.Fatal(err)
	}
	return vm
}

// resource returns what the cluster's list says of a machine.
func (b *bench) resource(vmid int) proxmox.ClusterResource {
	b.Helper()
	cluster, err := b.api.Cluster(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	list, err := cluster.Resources(b.Context(), "vm")
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range list {
		if r.VMID == uint64(vmid) {
			return *r
		}
	}
	return proxmox.ClusterResource{}
}

func TestLifeOfAMachine(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		ctx := b.Context()
		template := b.vm(9001)
		if !template.Template || template.Name != "debian-13" {
			b.Fatalf("template: %+v", template)
		}
		id, task, err := template.Clone(ctx, &proxmox.VirtualMachineCloneOptions{NewID: 10000, Name: "knc1", Full: true})
		if err != nil || id != 10000 {
			b.Fatal(id, err)
		}
		if exit := b.end(task); exit != "OK" {
			b.Fatal(exit)
		}
		vm := b.vm(10000)
		task, err = vm.Config(ctx,
			proxmox.VirtualMachineOption{Name: "cores", Value: 4},
			proxmox.VirtualMachineOption{Name: "memory", Value: 8192},
			proxmox.VirtualMachineOption{Name: "net0", Value: "virtio,bridge=vmbr0,tag=100"},
			proxmox.VirtualMachineOption{Name: "onboot", Value: true},
			proxmox.VirtualMachineOption{Name: "tags", Value: "nstance;two;One"},
			proxmox.VirtualMachineOption{Name: "description", Value: "a\nb"})
		if err != nil || b.end(task) != "OK" {
			b.Fatal(err, task.ExitStatus)
		}
		task, err = vm.ResizeDisk(ctx, "scsi0", "50G")
		if err != nil || b.end(task) != "OK" {
			b.Fatal(err, task.ExitStatus)
		}
		task, err = vm.Start(ctx)
		if err != nil || b.end(task) != "OK" {
			b.Fatal(err, task.ExitStatus)
		}
		vm = b.vm(10000)
		config := vm.VirtualMachineConfig
		if !vm.IsRunning() || vm.CPUs != 4 || vm.MaxMem != 8192*proxmoxfake.MiB || vm.MaxDisk != 50*proxmoxfake.GiB {
			b.Errorf("running machine: %+v", vm)
		}
		if config.Tags != "nstance;one;two" || config.Description != "a\nb" || !config.OnBoot || config.Nets["net0"] == "" {
			b.Errorf("its configuration: %+v", config)
		}
		if problem := b.call(http.MethodDelete, "/nodes/pve1/qemu/10000", nil, nil); problem != "500 VM 10000 is running - destroy failed" {
			b.Errorf("destroy of a running machine: %s", problem)
		}
		task, err = vm.Stop(ctx)
		if err != nil || b.end(task) != "OK" {
			b.Fatal(err, task.ExitStatus)
		}
		task, err = vm.Delete(ctx, &proxmox.VirtualMachineDeleteOptions{Purge: true, DestroyUnreferencedDisks: true})
		if err != nil || b.end(task) != "OK" {
			b.Fatal(err, task.ExitStatus)
		}
		if left := b.Machines(); len(left) != 0 || len(b.Volumes()) != 4 {
			b.Errorf("left over: %+v, %v", left, b.Volumes())
		}
		want := "500 Configuration file 'nodes/pve1/qemu-server/10000.conf' does not exist"
		if problem := b.call(http.MethodGet, "/nodes/pve1/qemu/10000/config", nil, nil); problem != want {
			b.Errorf("config of a machine that is gone: %s", problem)
		}
	})
}

func TestListingsShowNamesAndStatusesLate(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		time.Sleep(11 * time.Second)
		b.clone(10000, "knc1") // 2.1 s
		b.do(http.MethodPost, "/nodes/pve1/qemu/10000/config", map[string]any{"tags": "nstance"})
		if r := b.resource(10000); r.Name != "" || r.Status != "unknown" || r.Tags != "nstance" || r.Node != "pve1" {
			b.Errorf("a fresh machine: %+v", r)
		}
		time.Sleep(10 * time.Second)
		if r := b.resource(10000); r.Name != "knc1" || r.Status != "stopped" {
			b.Errorf("after a round: %+v", r)
		}
		b.do(http.MethodPost, "/nodes/pve1/qemu/10000/status/start", nil)
		if r := b.resource(10000); r.Status != "stopped" {
			b.Errorf("just started: %+v", r)
		}
		time.Sleep(10 * time.Second)
		if r := b.resource(10000); r.Status != "running" {
			b.Errorf("started a while ago: %+v", r)
		}
	})
}

func TestF30_TwoClonesForOneNumber(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		first := b.begin(http.MethodPost, "/nodes/pve1/qemu/9001/clone", map[string]any{"newid": 10000, "name": "one"})
		same := b.begin(http.MethodPost, "/nodes/pve1/qemu/9001/clone", map[string]any{"newid": 10000, "name": "two"})
		other := b.begin(http.MethodPost, "/nodes/pve2/qemu/9002/clone", map[string]any{"newid": 10000, "name": "three"})
		if exit := b.end(first); exit != "OK" {
			b.Error(exit)
		}
		if exit := b.end(same); exit != "can't lock file '/var/lock/qemu-server/lock-10000.conf' - got timeout" {
			b.Error(exit)
		}
		if exit := b.end(other); exit != fmt.Sprintf("unable to open file '/etc/pve/nodes/pve2/qemu-server/10000.conf.tmp.%d' - File exists", other.PID) {
			b.Error(exit)
		}
		late := b.call(http.MethodPost, "/nodes/pve1/qemu/9001/clone", map[string]any{"newid": 10000, "name": "four"}, nil)
		if late != "500 unable to create VM 10000: config file already exists" {
			b.Error(late)
		}
		if got := b.Machines(); len(got) != 1 || got[0].Name != "one" {
			b.Errorf("%+v", got)
		}
	})
}

func TestF30_SomebodyElseIsFaster(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.SetRivals(1)
		clone := b.begin(http.MethodPost, "/nodes/pve1/qemu/9001/clone", map[string]any{"newid": 10000, "name": "one"})
		if exit := b.end(clone); exit != "unable to create VM 10000: config file already exists" || b.Rivals() != 0 {
			b.Errorf("%s, and %d more", exit, b.Rivals())
		}
		b.clone(10001, "two")
		if got := b.Machines(); len(got) != 2 || got[0].Name != "rival-10000" || got[1].Name != "two" {
			b.Errorf("%+v", got)
		}
	})
}

func TestUnfinishedCloneHasNoNameAndALock(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		task := b.begin(http.MethodPost, "/nodes/pve1/qemu/9100/clone", map[string]any{"newid": 10000, "name": "one", "target": "pve2"})
		time.Sleep(time.Second)
		if got := b.Machines(); len(got) != 1 || got[0].Name != "" || got[0].Node != "pve1" || got[0].Config["lock"] != "clone" {
			b.Errorf("%+v", got)
		}
		if problem := b.call(http.MethodPost, "/nodes/pve1/qemu/10000/config", map[string]any{"cores": 2}, nil); problem != "500 VM is locked (clone)" {
			b.Error(problem)
		}
		if exit := b.end(task); exit != "OK" {
			b.Error(exit)
		}
		if got := b.Machines(); len(got) != 1 || got[0].Name != "one" || got[0].Node != "pve2" || got[0].Config["lock"] != "" {
			b.Errorf("%+v", got)
		}
	})
}
