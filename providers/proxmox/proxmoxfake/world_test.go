package proxmoxfake_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	proxmox "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/proxmoxfake"
	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

const cloneOp = "POST /nodes/{node}/qemu/{vmid}/clone"

func TestF30_NodeGoesAway(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.clone(10000, "knc1")
		b.do("POST", "/nodes/pve1/qemu/10000/config", params{"onboot": 1, "tags": "nstance"})
		b.do("POST", "/nodes/pve1/qemu/10000/status/start", nil)
		half := b.begin("POST", "/nodes/pve1/qemu/9001/clone", params{"newid": 10001, "name": "knc2", "full": 1})
		time.Sleep(11 * time.Second)
		b.SetOnline("pve1", false)

		if got := b.call("GET", "/nodes/pve1/qemu/10000/status/current", nil, &proxmox.VirtualMachine{}); !strings.Contains(got, "JSON") {
			b.Errorf("the client makes of status 595: %q", got) // no more than a body that is none
		}
		if r := b.resource(10000); r.Status != "running" || r.Tags != "nstance" {
			b.Errorf("at first the list remembers: %+v", r)
		}
		time.Sleep(6 * time.Minute)
		if r := b.resource(10000); r.Status != "unknown" || r.Name != "" || r.Tags != "nstance" || r.Node != "pve1" {
			b.Errorf("then it forgets: %+v", r)
		}
		var nodes []proxmox.NodeStatus
		if problem := b.call("GET", "/nodes", nil, &nodes); problem != "" || nodes[0].Status != "offline" || nodes[1].Status != "online" {
			b.Errorf("nodes: %s, %+v", problem, nodes)
		}

		b.SetOnline("pve1", true)
		if exit := b.end(half); exit != "unexpected status" {
			b.Errorf("a task of the node: %q", exit)
		}
		got := b.Machines()
		if len(got) != 2 || !got[0].Running || got[1].Config["lock"] != "clone" {
			b.Errorf("after its return: %+v", got)
		}
		if problem := b.call("DELETE", "/nodes/pve1/qemu/10001", nil, &half.UPID); problem != "" {
			b.Error(problem)
		}
		if exit := b.end(proxmox.NewTask(half.UPID, b.api)); exit != "VM is locked (clone)" {
			b.Errorf("destroy of half a clone: %q", exit)
		}
	})
}

func TestTasksOfOneMachineWaitForEachOther(t *testing.T) {
	inBubble(t, proxmoxfake.Options{Durations: map[string]time.Duration{"qmshutdown": 4 * time.Second}}, func(b *bench) {
		b.clone(10000, "knc1")
		b.do("POST", "/nodes/pve1/qemu/10000/status/start", nil)
		asked := b.begin("POST", "/nodes/pve1/qemu/10000/status/shutdown", nil)
		told := b.begin("POST", "/nodes/pve1/qemu/10000/status/stop", nil)
		if one, two := b.end(asked), b.end(told); one != "OK" || two != "OK" {
			b.Errorf("%q, %q", one, two)
		}
		b.do("POST", "/nodes/pve1/qemu/10000/status/start", nil)
		b.SetDeaf("knc1", true)
		asked = b.begin("POST", "/nodes/pve1/qemu/10000/status/shutdown", params{"timeout": 30})
		told = b.begin("POST", "/nodes/pve1/qemu/10000/status/stop", nil)
		if exit := b.end(told); exit != "can't lock file '/var/lock/qemu-server/lock-10000.conf' - got timeout" {
			b.Errorf("stop in a shutdown that nobody listens to: %q", exit)
		}
		if exit := b.end(asked); exit != "VM quit/powerdown failed - got timeout" {
			b.Error(exit)
		}
		b.do("POST", "/nodes/pve1/qemu/10000/status/shutdown", params{"timeout": 1, "forceStop": 1})
		if b.Machines()[0].Running {
			b.Error("it runs still")
		}
	})
}

func TestPower(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.clone(10000, "knc1")
		for _, c := range []struct{ action, want string }{
			{"start", "running running"}, {"suspend", "running paused"}, {"resume", "running running"}, {"reboot", "running running"},
			{"reset", "running running"}, {"shutdown", "stopped stopped"}, {"start", "running running"}, {"stop", "stopped stopped"},
		} {
			b.do("POST", "/nodes/pve1/qemu/10000/status/"+c.action, nil)
			vm := b.vm(10000)
			if got := vm.Status + " " + vm.QMPStatus; got != c.want {
				b.Errorf("after %s: %s, want %s", c.action, got, c.want)
			}
		}
	})
}

// TestHands are what people do behind the API's back.
func TestHands(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.clone(10000, "knc1")
		b.clone(10001, "knc2")
		b.do("POST", "/nodes/pve1/qemu/10000/status/start", nil)
		if !b.Kill("knc1") || b.Kill("knc1") || b.vm(10000).Status != "stopped" {
			b.Error("kill")
		}
		if !b.Remove("knc2") || b.Remove("knc2") || len(b.Machines()) != 1 {
			b.Error("remove")
		}
		if !b.Move("knc1", "pve2") || b.Machines()[0].Node != "pve2" || !slices.Contains(b.Volumes(), "local-lvm:base-9001-disk-0/vm-10000-disk-0@pve2") {
			b.Errorf("move: %+v, %v", b.Machines(), b.Volumes())
		}
		b.do("POST", "/nodes/pve2/qemu/10000/status/start", nil)
		b.Plant(proxmoxfake.Machine{VMID: 500, Name: "pet", Node: "pve3", Running: true, Config: map[string]string{"tags": "nstance"}})
		time.Sleep(10 * time.Second)
		if r := b.resource(500); r.Name != "pet" || r.Status != "running" || r.Tags != "nstance" {
			b.Errorf("planted: %+v", r)
		}
		b.Hide(true)
		var all proxmox.ClusterResources
		if problem := b.call("GET", "/cluster/resources", params{"type": "vm"}, &all); problem != "" || len(all) > 0 {
			b.Errorf("hidden: %s, %v", problem, all)
		}
		b.Hide(false)
		b.resource(500)
	})
}

func TestLagAndDurationsChange(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.clone(10000, "knc1")
		b.SetDuration("qmstart", time.Minute)
		b.SetLag(5 * time.Minute)
		start := b.begin("POST", "/nodes/pve1/qemu/10000/status/start", nil)
		time.Sleep(30 * time.Second)
		if b.vm(10000).Status != "stopped" {
			b.Error("it runs after half a minute")
		}
		if exit := b.end(start); exit != "OK" || b.vm(10000).Status != "running" || b.resource(10000).Status == "running" {
			b.Errorf("after more than a minute: %q, %s, listed as %s", exit, b.vm(10000).Status, b.resource(10000).Status)
		}
	})
}

func TestF19_FaultsInTheCloudsOwnWords(t *testing.T) {
	for kind, want := range map[driver.ErrorClass]string{
		driver.Throttled:   "invalid character '<'", // a page of a proxy, which the client takes for an answer
		driver.Invalid:     "bad request: 400 Parameter verification failed.",
		driver.Auth:        "not authorized to access endpoint",
		driver.MissingRef:  "500 storage 'gone' does not exist",
		driver.Transient:   "unexpected end of JSON input", // status 595
		driver.Ambiguous:   "unexpected end of JSON input", // status 596
		driver.NotFound:    "500 Configuration file 'nodes/pve1/qemu-server/9001.conf' does not exist",
		driver.Unsupported: "501 Method not implemented",
	} {
		t.Run(string(kind), func(t *testing.T) {
			inBubble(t, proxmoxfake.Options{}, func(b *bench) {
				b.Gate.SetFaults(wire.Times(1, cloneOp, wire.Fault{Kind: kind}))
				got := b.call("POST", "/nodes/pve1/qemu/9001/clone", params{"newid": 10000, "name": "knc1"}, new(proxmox.UPID))
				if !strings.HasPrefix(got, want) {
					b.Errorf("%q, want %q", got, want)
				}
				time.Sleep(time.Minute)
				if left := b.Machines(); len(left) > 0 {
					b.Errorf("it happened all the same: %+v", left)
				}
				if calls := b.Gate.Calls(); len(calls) != 1 || calls[0].Op != cloneOp || calls[0].Key != "knc1" {
					b.Errorf("calls: %+v", calls)
				}
			})
		})
	}
}

func TestF25_FullStorageShowsInTheTask(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.Gate.SetFaults(wire.Times(1, cloneOp, wire.Fault{Kind: driver.Capacity}))
		task := b.begin("POST", "/nodes/pve1/qemu/9001/clone", params{"newid": 10000})
		if exit := b.end(task); exit != "unable to write volume - No space left on device" || len(b.Machines()) > 0 {
			b.Errorf("%q, %+v", exit, b.Machines())
		}
	})
}

func TestF19_LostAnswer(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		for i, fault := range []wire.Fault{{Lost: true}, {Kind: driver.Ambiguous, After: true}} {
			b.Gate.SetFaults(wire.Times(1, cloneOp, fault))
			var upid proxmox.UPID
			err := b.api.Post(b.Context(), "/nodes/pve1/qemu/9001/clone", params{"newid": 10000 + i, "name": fmt.Sprint("knc", i)}, &upid)
			if err == nil || fault.Lost && !errors.Is(err, io.ErrUnexpectedEOF) {
				b.Errorf("%+v: %v", fault, err)
			}
			time.Sleep(time.Minute)
			if got := len(b.Machines()); got != i+1 {
				b.Errorf("%+v: %d machines", fault, got)
			}
		}
	})
}

func TestTaskFaults(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.SetTaskFaults(func(kind, name string) string {
			if kind == "qmclone" && name == "knc1" {
				return "interrupted by signal"
			}
			return ""
		})
		task := b.begin("POST", "/nodes/pve1/qemu/9001/clone", params{"newid": 10000, "name": "knc1"})
		if exit := b.end(task); exit != "interrupted by signal" {
			b.Error(exit)
		}
		log, err := task.Log(b.Context(), 0, 10)
		if err != nil || len(log) != 1 || log[0] != "TASK ERROR: interrupted by signal" {
			b.Errorf("%v, %v", log, err)
		}
		b.clone(10001, "knc2")
	})
}

func TestTaskLists(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.clone(10000, "knc1")
		running := b.begin("POST", "/nodes/pve2/qemu/9002/clone", params{"newid": 10001, "name": "knc2"})
		time.Sleep(time.Second)
		cluster, err := b.api.Cluster(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		tasks, err := cluster.Tasks(b.Context())
		if err != nil || len(tasks) != 2 || tasks[0].UPID != running.UPID || tasks[1].Status != "OK" {
			b.Errorf("%+v, %v", tasks, err)
		}
		var list []map[string]any
		if problem := b.call("GET", "/nodes/pve2/tasks", params{"source": "active"}, &list); problem != "" || len(list) != 1 || list[0]["upid"] != string(running.UPID) {
			b.Errorf("%s, %v", problem, list)
		}
		if err := running.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		if exit := b.end(running); exit != "interrupted by signal" || len(b.Machines()) != 1 {
			b.Errorf("%q, %+v", exit, b.Machines())
		}
	})
}

func TestNothingChangesWithoutAQuorum(t *testing.T) {
	inBubble(t, proxmoxfake.Options{}, func(b *bench) {
		b.SetOnline("pve2", false)
		b.clone(10000, "knc1")
		b.SetOnline("pve3", false)
		if got := b.call("POST", "/nodes/pve1/qemu/9001/clone", params{"newid": 10001}, nil); got != "500 cluster not ready - no quorum?" {
			b.Error(got)
		}
		if r := b.resource(10000); r.Node != "pve1" {
			b.Errorf("it still answers questions: %+v", r)
		}
		b.SetOnline("pve3", true)
		b.clone(10001, "knc2")
	})
}

// seed writes a CD as cloud-init reads it, with the library that the driver has.
func seed(t *testing.T, label string, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "knc1.iso")
	disk, err := file.CreateFromPath(path, proxmoxfake.MiB)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	cd, err := iso9660.Create(disk, 0, 0, 2048, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		f, err := cd.OpenFile("/"+name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cd.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: label}); err != nil {
		t.Fatal(err)
	}
	return path
}

// program is what a machine runs, and notes how it ends.
type program struct{ told *[]string }

func (p program) Stop() { *p.told = append(*p.told, "asked to end") }
func (p program) Kill() { *p.told = append(*p.told, "killed") }

func TestMachinesRunTheirUserData(t *testing.T) {
	var told []string
	run := func(g proxmoxfake.Guest) (proxmoxfake.Running, error) {
		told = append(told, fmt.Sprintf("start %s %q %q", g.Name, g.UserData, g.MetaData))
		return program{&told}, nil
	}
	path := seed(t, "cidata", map[string]string{"user-data": "#!/bin/sh\nexit 0\n", "meta-data": "instance-id: knc1\n"})
	inBubble(t, proxmoxfake.Options{Run: run}, func(b *bench) {
		b.clone(10000, "knc1")
		storage, err := (&proxmox.Node{}).New(b.api, "pve1").Storage(b.Context(), "local")
		if err != nil {
			b.Fatal(err)
		}
		task, err := storage.Upload("iso", path)
		if err != nil || b.end(task) != "OK" {
			b.Fatal(err, task)
		}
		b.do("POST", "/nodes/pve1/qemu/10000/config", params{"ide2": "local:iso/knc1.iso,media=cdrom", "boot": "order=scsi0;ide2"})
		begin := b.begin("POST", "/nodes/pve1/qemu/10000/status/start", nil)
		time.Sleep(time.Minute) // and nobody looks
		synctest.Wait()
		if want := []string{`start knc1 "#!/bin/sh\nexit 0\n" "instance-id: knc1\n"`}; !slices.Equal(told, want) {
			b.Errorf("%q, want %q", told, want)
		}
		if exit := b.end(begin); exit != "OK" {
			b.Error(exit)
		}
		b.do("POST", "/nodes/pve1/qemu/10000/status/reboot", nil)
		b.Kill("knc1")
		if want := []string{"asked to end", told[0], "killed"}; !slices.Equal(told[1:], want) {
			b.Errorf("%q, want %q", told[1:], want)
		}
		iso, err := storage.ISO(b.Context(), "knc1.iso")
		if err != nil {
			b.Fatal(err)
		}
		if task, err := iso.Delete(b.Context()); err != nil || b.end(task) != "OK" {
			b.Error(err)
		}
		if got := b.Volumes(); slices.ContainsFunc(got, func(v string) bool { return strings.Contains(v, "iso") }) {
			b.Error(got)
		}
		if exit := b.end(b.begin("POST", "/nodes/pve1/qemu/10000/status/start", nil)); exit != "volume 'local:iso/knc1.iso' does not exist" {
			b.Error(exit)
		}
	})
}
