package interruption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Provider is a cloud as NSTANCE_PROVIDER names it.
type Provider string

// The providers. Those without a metadata service of their own announce nothing.
const (
	Auto    Provider = "" // ask the metadata service
	AWS     Provider = "aws"
	Google  Provider = "google"
	Proxmox Provider = "proxmox"
	Local   Provider = "local"
)

// ParseProvider returns the provider of a name; "gcp" is another name of Google.
func ParseProvider(name string) (Provider, error) {
	switch p := Provider(name); p {
	case Auto, AWS, Google, Proxmox, Local:
		return p, nil
	case "gcp":
		return Google, nil
	}
	return Auto, fmt.Errorf("%.80q is not aws, google, proxmox or local", name)
}

// Notice is what the cloud announced. The zero value is nothing.
type Notice struct {
	Action   string    // terminate, stop or hibernate
	Deadline time.Time // zero: the cloud gives no time
}

// DefaultInterval is the time between two questions where a cloud has to be polled.
const DefaultInterval = 2 * time.Second

// Options are the settings of a [Watcher]; zero fields take the defaults.
type Options struct {
	Provider Provider      // Auto
	Interval time.Duration // between two questions; DefaultInterval

	// Addr is where the metadata service is; invalid (zero): at the link-local address
	// that the clouds use.
	Addr netip.AddrPort

	// DialContext connects to the metadata service, for tests; nil: TCP, to Addr or to
	// link-local addresses only.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Watcher waits for one announcement. It is safe for concurrent use.
type Watcher struct {
	interval time.Duration
	provider Provider
	client   *client
	log      *slog.Logger

	mu     sync.Mutex
	notice Notice
	news   chan struct{}
}

// New returns a watcher, which starts nothing.
func New(o Options, log *slog.Logger) *Watcher {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	return &Watcher{
		interval: o.Interval, provider: o.Provider, client: newClient(o),
		log: log, news: make(chan struct{}),
	}
}

// Notice returns what was announced, and whether anything was. It stays.
func (w *Watcher) Notice() (Notice, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notice, w.notice != Notice{}
}

// News is closed with the announcement.
func (w *Watcher) News() <-chan struct{} { return w.news }

func (w *Watcher) announce(n Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notice = n
	close(w.news)
}

// Run waits for the announcement. It returns nil when there is one or there will be none,
// and the error of ctx when that ends first. It is called once.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.client.close()
	service, err := w.settle(ctx)
	if err != nil || service == nil {
		return err
	}
	n, err := service.wait(ctx, w.interval, w.log)
	if err != nil {
		return err
	}
	w.log.WarnContext(ctx, "the cloud will take this machine away", "action", n.Action, "deadline", n.Deadline)
	w.announce(n)
	return nil
}

// service is the metadata service of a cloud.
type service interface {
	// mine reports whether this is the cloud that the machine runs on.
	mine(ctx context.Context) (bool, error)
	// spare reports whether the cloud may take the machine away.
	spare(ctx context.Context) (bool, error)
	// wait returns the announcement, or the error of ctx.
	wait(ctx context.Context, interval time.Duration, log *slog.Logger) (Notice, error)
}

// Pauses while it is not known what the machine is.
const (
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
)

// settle finds out whom to ask; nil if nothing will be announced. A service that does not
// answer is asked again for as long as it takes.
func (w *Watcher) settle(ctx context.Context) (service, error) {
	if w.provider == Proxmox || w.provider == Local {
		return nil, nil
	}
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		s, spare, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && spare:
			w.log.InfoContext(ctx, "the cloud may take this machine away; waiting for its notice")
			return s, nil
		case err == nil:
			w.log.DebugContext(ctx, "the cloud will not take this machine away")
			return nil, nil
		}
		w.log.DebugContext(ctx, "not known whether the cloud may take this machine away", "retry_in", wait.String(), "error", err)
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// errNobody says that no metadata service that is known has answered.
var errNobody = errors.New("no metadata service answers")

// look asks once: where it is not configured, which cloud this is, and then what kind of
// machine.
func (w *Watcher) look(ctx context.Context) (service, bool, error) {
	var errs []error
	for _, candidate := range w.candidates() {
		mine := w.provider != Auto
		if !mine {
			var err error
			if mine, err = candidate.mine(ctx); err != nil {
				errs = append(errs, err)
			}
		}
		if mine {
			spare, err := candidate.spare(ctx)
			return candidate, spare, err
		}
	}
	return nil, false, errors.Join(append(errs, errNobody)...)
}

func (w *Watcher) candidates() []service {
	switch w.provider {
	case AWS:
		return []service{&aws{client: w.client}}
	case Google:
		return []service{&google{client: w.client}}
	default:
		return []service{&aws{client: w.client}, &google{client: w.client}}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
