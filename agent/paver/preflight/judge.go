package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// IDs of checks.
const (
	Privileges     = "Privileges"
	Systemd        = "Systemd"
	Nspawn         = "Nspawn"
	CgroupV2       = "CgroupV2"
	Swap           = "Swap"
	ForeignKubelet = "ForeignKubelet"
	DiskSpace      = "DiskSpace"
	KernelModules  = "KernelModules"
	NameResolution = "NameResolution"
	APIServer      = "APIServer"
	Clock          = "Clock"
	ImageSource    = "ImageSource"
)

const (
	// KubeletPort is where a kubelet listens, on the host's addresses.
	KubeletPort = 10250

	oldestSystemd = 250
	// spareDisk is what must be free beside the trees that are written.
	spareDisk = 2 << 30
	mostSkew  = 60 * time.Second
	// mostMessage bounds a message, bytes.
	mostMessage = 512
)

// Capabilities, by bit.
const (
	capNetAdmin    = 12
	capSysAdmin    = 21
	capSysResource = 24
)

var requiredControllers = []string{"cpu", "io", "memory", "pids"}

// Passed says whether a machine can be built: no check has failed.
func Passed(checks []*nstancev1.PreflightCheck) bool {
	return !slices.ContainsFunc(checks, func(c *nstancev1.PreflightCheck) bool {
		return c.GetResult() == nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED
	})
}

// guarded are the checks that are looked at again before a machine is stopped for another one: what
// fails of them would keep that one from running, or run it against the will of the host's owner.
var guarded = []string{Privileges, Systemd, Nspawn, CgroupV2, Swap, ForeignKubelet}

// Refusal says why no machine may be built on a host, whatever is assigned to it; nil: it may.
func Refusal(checks []*nstancev1.PreflightCheck) error {
	var errs []error
	for _, c := range checks {
		if slices.Contains(guarded, c.GetId()) && c.GetResult() == nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED {
			errs = append(errs, fmt.Errorf("%s: %s", c.GetId(), c.GetMessage()))
		}
	}
	return errors.Join(errs...)
}

// Judge returns a result for everything that was looked at, always in the same order.
func Judge(f Facts, w Wants) []*nstancev1.PreflightCheck {
	j := judge{allowDegraded: w.AllowDegraded}
	j.privileges(f)
	j.systemd(f, w)
	j.cgroups(f)
	j.failIf(Swap, f.Swap && !w.SwapAllowed, "swap is in use: switch it off, or set failSwapOn to false in kubernetes.kubeletConfig")
	j.foreignKubelet(f)
	need := w.Trees + spareDisk
	j.failIf(DiskSpace, f.DiskFree < need, "%s are free and %s needed: make the disk larger, or remove what is not needed", mebibytes(f.DiskFree), mebibytes(need))
	var lacking []string
	for _, module := range w.Modules {
		if !slices.Contains(f.Modules, module) {
			lacking = append(lacking, module)
		}
	}
	j.failIf(KernelModules, len(lacking) > 0, "the kernel has no module %s", strings.Join(lacking, ", "))
	j.network(f.Network)
	return j.checks
}

// judge collects results.
type judge struct {
	checks        []*nstancev1.PreflightCheck
	allowDegraded bool
}

func (j *judge) add(id string, result nstancev1.PreflightResult, message string) {
	if len(message) > mostMessage {
		message = strings.ToValidUTF8(message[:mostMessage], "")
	}
	j.checks = append(j.checks, &nstancev1.PreflightCheck{Id: id, Result: result, Message: message})
}

// failIf adds a check that fails on a condition.
func (j *judge) failIf(id string, failed bool, format string, args ...any) {
	if !failed {
		j.add(id, nstancev1.PreflightResult_PREFLIGHT_RESULT_PASSED, "")
		return
	}
	j.add(id, nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED, fmt.Sprintf(format, args...))
}

// degraded adds a check that does not hold, and which a policy may put up with.
func (j *judge) degraded(id, message string) {
	if j.allowDegraded {
		j.add(id, nstancev1.PreflightResult_PREFLIGHT_RESULT_DEGRADED, message)
		return
	}
	j.add(id, nstancev1.PreflightResult_PREFLIGHT_RESULT_FAILED, message+"; allow.degraded of the machine policy would put up with it")
}

func (j *judge) privileges(f Facts) {
	has := func(bit int) bool { return f.Capabilities>>bit&1 == 1 }
	switch {
	case !f.Root:
		j.failIf(Privileges, true, "nstance-paver must run as root")
	case !has(capSysAdmin) || !has(capNetAdmin):
		j.failIf(Privileges, true, "root has no CAP_SYS_ADMIN or no CAP_NET_ADMIN here")
	case !has(capSysResource):
		j.degraded(Privileges, "root has no CAP_SYS_RESOURCE here: containers cannot be protected from being killed when memory is short")
	default:
		j.failIf(Privileges, false, "")
	}
}

func (j *judge) systemd(f Facts, w Wants) {
	switch {
	case w.Mode == Service && f.Init != "systemd":
		j.failIf(Systemd, true, "the first process is %q and not systemd", f.Init)
	case w.Mode == Direct && f.Init == "systemd":
		j.failIf(Systemd, true, "the first process is systemd: machines must be run by it")
	case w.Mode == Service && f.SystemdVersion < oldestSystemd:
		j.failIf(Systemd, true, "systemd %d is older than %d", f.SystemdVersion, oldestSystemd)
	default:
		j.failIf(Systemd, false, "")
	}
	j.failIf(Nspawn, f.Nspawn == "", "systemd-nspawn is not installed: install the package systemd-container")
}

func (j *judge) cgroups(f Facts) {
	var lacking []string
	for _, controller := range requiredControllers {
		if !slices.Contains(f.Controllers, controller) {
			lacking = append(lacking, controller)
		}
	}
	switch {
	case !f.Unified:
		j.degraded(CgroupV2, "control groups are not those of version 2 alone: boot the host with systemd.unified_cgroup_hierarchy=1")
	case len(lacking) > 0:
		j.degraded(CgroupV2, "control groups lack the controllers "+strings.Join(lacking, ", "))
	default:
		j.failIf(CgroupV2, false, "")
	}
}

// foreignKubelet keeps a host from having two kubelets.
func (j *judge) foreignKubelet(f Facts) {
	switch {
	case len(f.Kubelets) > 0:
		j.failIf(ForeignKubelet, true, "a kubelet runs on the host (process %d): take it out of image and user data, and replace the host", f.Kubelets[0])
	case f.PortHolder != "":
		j.failIf(ForeignKubelet, true, "port %d, which the kubelet needs, is taken by %s", KubeletPort, f.PortHolder)
	default:
		j.failIf(ForeignKubelet, false, "")
	}
}

func (j *judge) network(n Network) {
	if a := n.Resolution; a != nil {
		j.failIf(NameResolution, a.Err != nil, "%s has no address: %v", a.Asked, a.Err)
	}
	if a := n.APIServer; a != nil {
		j.failIf(APIServer, a.Err != nil, "%s does not answer: %v", a.Asked, a.Err)
	}
	if n.Skew != nil {
		j.failIf(Clock, n.Skew.Abs() > mostSkew, "the host's clock is %v off that of the API server: set up time synchronisation", n.Skew.Round(time.Second))
	}
	if a := n.ImageSource; a != nil {
		j.failIf(ImageSource, a.Err != nil, "%s does not answer: %v", a.Asked, a.Err)
	}
}

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }
