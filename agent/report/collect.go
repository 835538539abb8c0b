package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/files"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Options are the settings of a [Collector].
type Options struct {
	// Version is that of this build, InstanceID who this machine is.
	Version    string
	InstanceID identity.ID
	// Interface is the network interface to watch, together with the connection tracking
	// table; empty: neither.
	Interface string
	// Proc and Sys are where the kernel's file systems are mounted; empty: /proc and /sys.
	Proc, Sys string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Collector makes the reports of one process. It is used by one goroutine at a time.
type Collector struct {
	options Options
	proc    procfs.FS
	count   int64
	before  *procfs.Stat // at the report before; nil: unknown
}

// New returns a collector. CPU time is counted from here on, so that the first report has
// a usage already.
func New(o Options) (*Collector, error) {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	proc, err := procfs.NewFS(o.Proc)
	if err != nil {
		return nil, fmt.Errorf("open process file system: %w", err)
	}
	c := &Collector{options: o, proc: proc}
	if stat, err := proc.Stat(); err == nil {
		c.before = &stat
	}
	return c, nil
}

// Numbered says whether a report counts.
type Numbered bool

// A report has the next number, or, where reports are disabled and one alone is sent, none.
const (
	Next   Numbered = true
	Single Numbered = false
)

// Collect makes a report. The error says what could not be measured and has no field for
// it; the report is complete but for that.
func (c *Collector) Collect(n Numbered, statuses map[string]files.Status, configHash string) (*nstancev1.HealthReport, error) {
	metrics, metricsErr := c.metrics()
	uptime, uptimeErr := c.uptime()
	report := &nstancev1.HealthReport{
		Version:    c.options.Version,
		InstanceId: c.options.InstanceID.String(),
		Timestamp:  timestamppb.New(c.options.Now()),
		Uptime:     uptime,
		Metrics:    metrics,
		Files:      fileStatuses(statuses),
		ConfigHash: configHash,
	}
	if n == Next {
		c.count++
		report.Count = c.count
	}
	return report, errors.Join(metricsErr, uptimeErr)
}

func fileStatuses(statuses map[string]files.Status) map[string]*nstancev1.FileStatus {
	all := make(map[string]*nstancev1.FileStatus, len(statuses))
	for name, s := range statuses {
		fs := new(nstancev1.FileStatus)
		switch {
		case s.Error != "":
			fs.State = &nstancev1.FileStatus_Error{Error: s.Error}
		case !s.ModTime.IsZero():
			fs.State = &nstancev1.FileStatus_LastModified{LastModified: timestamppb.New(s.ModTime)}
			fs.Sha256 = s.SHA256[:]
		}
		all[name] = fs
	}
	return all
}

func (c *Collector) metrics() (*nstancev1.Metrics, error) {
	m := new(nstancev1.Metrics)
	err := errors.Join(c.cpu(m), c.memory(m))
	if c.options.Interface != "" {
		c.network(m)
		c.conntrack(m)
	}
	return m, err
}

func (c *Collector) cpu(m *nstancev1.Metrics) error {
	now, err := c.proc.Stat()
	if err != nil {
		c.before = nil
		return fmt.Errorf("measure cpu: %w", err)
	}
	before := c.before
	c.before = &now
	if before == nil {
		return nil
	}
	if usage, ok := busy(before.CPUTotal, now.CPUTotal); ok {
		m.CpuUsage = proto.Float64(usage)
	}
	m.CpuCoreUsage = cores(before.CPU, now.CPU)
	return nil
}

func (c *Collector) memory(m *nstancev1.Metrics) error {
	info, err := c.proc.Meminfo()
	if err != nil {
		return fmt.Errorf("measure memory: %w", err)
	}
	if info.MemTotal == nil || info.MemAvailable == nil || *info.MemTotal == 0 {
		return errors.New("measure memory: the kernel says neither total nor available memory")
	}
	available := min(*info.MemAvailable, *info.MemTotal)
	m.MemoryUsage = proto.Float64(100 * (1 - float64(available)/float64(*info.MemTotal)))
	return nil
}
