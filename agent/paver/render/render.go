package render

import (
	"cmp"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Render returns what is written for an assignment. Without a credential placeholders stand for
// secrets. An error matches [Invalid] by errors.As, and reports everything that is wrong.
func Render(a *nstancev1.MachineAssignment, host Host, credential *nstancev1.MachineCredential) (Plan, error) {
	r := renderer{a: a, t: a.GetTemplate(), host: host, credential: credential}
	r.host.StateDir = cmp.Or(host.StateDir, StateDir)
	if r.assignment(); len(r.list) > 0 {
		return Plan{}, &Invalid{r.list}
	}
	kubelet := r.kubeletConfig()
	r.system()
	r.containerd(kubelet)
	r.registries()
	r.kubelet(kubelet)
	r.secrets()
	r.units()
	r.files()
	mounts := r.mounts()
	r.nspawn(mounts)
	r.service(mounts)
	r.kernel()
	r.packages()
	r.ssh()
	r.sort()
	r.covered(mounts)
	if len(r.list) > 0 {
		return Plan{}, &Invalid{r.list}
	}
	return r.plan, nil
}
