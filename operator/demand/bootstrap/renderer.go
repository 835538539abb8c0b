package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
)

// longestTTL is how long a blob is good for at most, as the contract has it.
const longestTTL = 10 * time.Minute

// longestError bounds an error that goes to the shard, in bytes.
const longestError = 1024

// stub is what machines get without a template: it joins nothing.
const stub = "#cloud-config\n# The operator has no bootstrap template: this machine joins no cluster.\n"

// Options are the settings of a [Renderer].
type Options struct {
	// File is the template; empty: there is none, and machines get a stub that joins nothing.
	File string
	// ClusterID and Tenant are those of the operator.
	ClusterID, Tenant string
	// Token returns a join token and until when it is valid, from memory; nil: there is none.
	Token func() (token string, until time.Time, err error)
	// Interval is how often the file is read again; 0: 5s.
	Interval time.Duration
	// Observer hears what happens; its fields may be nil.
	Observer Observer
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now
}

// Observer is what a [Renderer] reports to. Its functions are called concurrently.
type Observer struct {
	Rendered func(ok bool) // a request was answered
	Reloaded func(ok bool) // the file has changed, and is in force or was refused
	Rejected func(bool)    // whether the file differs from what is in force because it was refused
}

// Renderer renders blobs from a file that may change. It is safe for concurrent use; New makes
// one.
type Renderer struct {
	opts    Options
	inForce atomic.Pointer[Template] // nil: the stub
	begun   string                   // text of the file when the renderer was made
}

// New reads and parses the template. A template that cannot be used is an error: an operator
// without one would buy machines that never join.
func New(o Options) (*Renderer, error) {
	if o.Interval <= 0 {
		o.Interval = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Token == nil {
		o.Token = func() (string, time.Time, error) {
			return "", time.Time{}, errors.New("join tokens are turned off")
		}
	}
	r := &Renderer{opts: o}
	if o.File == "" {
		o.Log.Warn("no bootstrap template: machines that are bought join no cluster", "flag", "--bootstrap-template-file")
		return r, nil
	}
	text, parsed, err := r.read()
	if err != nil {
		return nil, err
	}
	r.begun = text
	r.inForce.Store(parsed)
	r.rejected(false)
	return r, nil
}

// UsesToken reports whether the template in force calls bootstrapToken.
func (r *Renderer) UsesToken() bool {
	t := r.inForce.Load()
	return t != nil && t.UsesToken()
}

// Render answers a request of a shard. It reads memory and the template's directory, waits for
// nothing, and never fails: why there is no blob stands in the answer.
func (r *Renderer) Render(ctx context.Context, shard string, req *demandpb.BootstrapRequest) *demandpb.BootstrapBlobResponse {
	log := r.opts.Log.With("shard", shard, "machine", req.GetMachineId(), "request", req.GetRequestId())
	blob, ttl, err := r.blob(req)
	if r.opts.Observer.Rendered != nil {
		r.opts.Observer.Rendered(err == nil)
	}
	answer := &demandpb.BootstrapBlobResponse{RequestId: req.GetRequestId()}
	if err != nil {
		log.WarnContext(ctx, "bootstrap blob not rendered", "error", err)
		answer.Error = printable(err.Error())
		return answer
	}
	if r.inForce.Load() == nil {
		log.WarnContext(ctx, "no bootstrap template: the machine joins no cluster", "flag", "--bootstrap-template-file")
	} else {
		log.InfoContext(ctx, "bootstrap blob rendered", "bytes", len(blob), "ttl", ttl)
	}
	answer.UserData, answer.TtlSeconds = blob, int32(ttl/time.Second)
	return answer
}

// blob returns what the machine gets, and for how long it is good.
func (r *Renderer) blob(req *demandpb.BootstrapRequest) ([]byte, time.Duration, error) {
	m, err := machine(r.opts.ClusterID, r.opts.Tenant, req)
	if err != nil {
		return nil, 0, err
	}
	t := r.inForce.Load()
	if t == nil {
		return []byte(stub), longestTTL, nil
	}
	ttl := longestTTL
	blob, err := t.execute(m, filepath.Dir(r.opts.File), func() (string, error) {
		token, until, err := r.opts.Token()
		if err != nil {
			return "", err
		}
		left := until.Sub(r.opts.Now()).Truncate(time.Second)
		if left <= 0 {
			return "", errors.New("the join token has expired")
		}
		ttl = min(ttl, left)
		return token, nil
	})
	return blob, ttl, err
}

// Run follows the file until ctx ends. A file that cannot be used leaves the template before it
// in force.
func (r *Renderer) Run(ctx context.Context) error {
	if r.opts.File == "" {
		<-ctx.Done()
		return nil
	}
	ticks := time.NewTicker(r.opts.Interval)
	defer ticks.Stop()
	f := follower{seen: r.begun}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			r.follow(ctx, &f)
		}
	}
}

// follower remembers what was said last, so that nothing is said twice.
type follower struct {
	seen    string // the text in force
	refused string // why the file was refused; empty: it is in force
}

func (r *Renderer) follow(ctx context.Context, f *follower) {
	text, parsed, err := r.read()
	switch {
	case err != nil && err.Error() == f.refused:
		return
	case err != nil:
		f.refused = err.Error()
		r.opts.Log.ErrorContext(ctx, "bootstrap template refused: the one before remains in force", "error", err)
	case text == f.seen && f.refused == "":
		return
	default:
		f.seen, f.refused = text, ""
		r.inForce.Store(parsed)
		r.opts.Log.InfoContext(ctx, "bootstrap template in force", "bytes", len(text), "join_tokens", parsed.UsesToken())
	}
	if r.opts.Observer.Reloaded != nil {
		r.opts.Observer.Reloaded(err == nil)
	}
	r.rejected(err != nil)
}

func (r *Renderer) rejected(yes bool) {
	if r.opts.Observer.Rejected != nil {
		r.opts.Observer.Rejected(yes)
	}
}

// read reads and parses the file.
func (r *Renderer) read() (string, *Template, error) {
	text, err := os.ReadFile(r.opts.File)
	if err != nil {
		return "", nil, fmt.Errorf("read bootstrap template: %w", err)
	}
	parsed, err := Parse(filepath.Base(r.opts.File), string(text))
	if err != nil {
		return "", nil, fmt.Errorf("bootstrap template %s: %w", r.opts.File, err)
	}
	return string(text), parsed, nil
}

// printable is an error as one line of bounded length.
func printable(s string) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, s)
	if len(s) > longestError {
		s = strings.ToValidUTF8(s[:longestError], "")
	}
	return s
}
