//go:build hostvm

package hosts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// TestM46M49M58M79M84_AVirtualHost: a host on which nothing is left out builds a node, whose Pods have their limits.
// Its machine is started again by the systemd of the host, and with the host, and is the same node then: nothing
// is repaved. When the Node is deleted, it is, also where the host loses its power on the way. Operations reboot it,
// shut it down and switch it on.
func TestM46M49M58M79M84_AVirtualHost(t *testing.T) {
	w := newVMWorld(t)
	w.configure(w.template("1"))
	t.Logf("measured: the first node joined after %v", w.joined("", 1).Round(time.Second))
	w.expectOne("1")
	if report := w.host().Status.Host; report == nil || report.Cgroup != "v2" {
		t.Errorf("the host reports %+v", report)
	}
	w.expectLimits()

	was, assigned := w.node(), w.host().Status.Repave.Epoch
	w.on(`systemctl restart systemd-machined
sleep 2
kill -KILL "$(systemctl show --property=MainPID --value systemd-nspawn@node-a)"`)
	w.again(was, 1)
	w.expectOne("1")

	was = w.node()
	host := w.host().Status.Host.BootID
	w.on("systemctl --no-block reboot")
	w.again(was, 1)
	w.expectOne("1")
	if now := w.host().Status.Host.BootID; now == host || now == "" {
		t.Errorf("the boot of the host is %q, before %q", now, host)
	}
	if now := w.host().Status.Repave.Epoch; now != assigned {
		t.Errorf("assignment %d was made, before %d", now, assigned)
	}
	if slots := w.host().Status.Slots; len(slots) != 2 || slots[1].State != hostsv1.SlotEmpty {
		t.Errorf("slots %+v: something was built", slots)
	}

	w.configure(w.template("2"))
	w.knows(2)
	t.Logf("measured: repaved after %v", w.joined(w.deleteNode(), 2).Round(time.Second))
	w.expectOne("2")

	w.losesPower(3)
	w.goesDown(4)
}

// expectLimits: control groups of Pods have the limits that the Pods ask for, and are in those of their
// classes of service.
func (w *vmWorld) expectLimits() {
	w.t.Helper()
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	var pods []*corev1.Pod
	for _, p := range []struct {
		name      string
		resources corev1.ResourceRequirements
		class     corev1.PodQOSClass
		within    string // of kubepods.slice
		want      string // cpu.max, memory.max, and memory.max of the containers
	}{
		{"guaranteed", corev1.ResourceRequirements{Limits: list("200m", "64Mi")}, corev1.PodQOSGuaranteed, "", "20000 100000\n67108864\n67108864"},
		{"burstable", corev1.ResourceRequirements{Requests: list("100m", "32Mi"), Limits: list("500m", "128Mi")}, corev1.PodQOSBurstable, "kubepods-burstable.slice/", "50000 100000\n134217728\n134217728"},
		{"best-effort", corev1.ResourceRequirements{}, corev1.PodQOSBestEffort, "kubepods-besteffort.slice/", "max 100000\nmax\nmax"},
	} {
		pod := w.run(p.name, p.resources)
		pods = append(pods, pod)
		if pod.Status.QOSClass != p.class {
			w.t.Errorf("%s: its class is %s", p.name, pod.Status.QOSClass)
		}
		id := strings.ReplaceAll(string(pod.UID), "-", "_")
		// The container of a sandbox has no limits of its own.
		out := w.on(fmt.Sprintf(`group=$(find /sys/fs/cgroup -type d -name 'kubepods*-pod%s.slice')
echo "$group"
cat "$group/cpu.max" "$group/memory.max"
cat "$group"/*.scope/memory.max | sort --unique | head -1`, id))
		group, limits, _ := strings.Cut(out, "\n")
		if !strings.Contains(group, "/systemd-nspawn@node-a.service/") || !strings.Contains(group, "/kubepods.slice/"+p.within+"kubepods-") {
			w.t.Errorf("%s: its control group is %q", p.name, group)
		}
		if limits != p.want {
			w.t.Errorf("%s: its limits are %q, want %q", p.name, limits, p.want)
		}
	}
	for _, pod := range pods {
		if err := w.admin.Delete(w.t.Context(), pod); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, pod := range pods {
		w.gone(pod)
	}
}
