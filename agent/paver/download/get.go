package download

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"nstance.dev/agent/paver/digest"
)

// ErrUnavailable is matched by the error about a server that refuses or does not have what
// is asked for: asking again is pointless.
var ErrUnavailable = errors.New("the server does not have it")

// Request says what to get.
type Request struct {
	URL    *url.URL
	Client *http.Client // of [Client]
	Accept string       // media types that are asked for; empty: any
	Digest digest.Digest
	Size   int64 // of the whole; negative: unknown
	Limit  int64 // on the size; used where the size is unknown
	// Attempts is how many requests in a row may bring nothing before the server is given
	// up; 6.
	Attempts int
	// Progress is told of what has arrived, and of the whole; the whole is negative while it
	// is unknown. It may be nil.
	Progress func(done, whole int64)
}

// Get completes the file, which is open for reading and writing. Its offset means nothing.
// The context's error is returned as it is.
func Get(ctx context.Context, req Request, file *os.File) error {
	g := &get{Request: req, file: file, hash: digest.New()}
	if g.Size >= 0 {
		g.Limit = g.Size
	}
	if err := g.begin(); err != nil {
		return fmt.Errorf("get %s: %w", Plain(req.URL), err)
	}
	most := g.have // that the file has ever held
	return retry(ctx, req, func() (progress bool, err error) {
		err = g.attempt(ctx)
		progress = g.have > most
		most = max(most, g.have)
		return progress, err
	})
}

// Small returns content of at most Limit bytes whose digest is not known before, and its
// media type. Digest and Size mean nothing.
func Small(ctx context.Context, req Request) (data []byte, mediaType string, err error) {
	g := &get{Request: req}
	err = retry(ctx, req, func() (bool, error) {
		resp, err := g.ask(ctx)
		if err != nil {
			return false, unreachable(Cause(err))
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return false, g.refuse(resp)
		}
		mediaType = resp.Header.Get("Content-Type")
		if data, err = io.ReadAll(io.LimitReader(resp.Body, req.Limit+1)); err != nil {
			return false, &passing{err: Cause(err)}
		}
		if int64(len(data)) > req.Limit {
			return false, fmt.Errorf("%w: it has more than %d bytes", ErrUnavailable, req.Limit)
		}
		return false, nil
	})
	return data, mediaType, err
}

// retry repeats what may pass until it has brought nothing too often in a row.
func retry(ctx context.Context, req Request, once func() (progress bool, err error)) error {
	if req.Attempts == 0 {
		req.Attempts = 6
	}
	for failures := 0; ; {
		progress, err := once()
		if err == nil {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if failures++; progress {
			failures = 1
		}
		var pass *passing
		if !errors.As(err, &pass) || failures >= req.Attempts {
			return fmt.Errorf("get %s: %w", Plain(req.URL), err)
		}
		if err := sleep(ctx, max(pause(failures, rand.Float64()), pass.after)); err != nil {
			return err
		}
	}
}

// get is one file on the way.
type get struct {
	Request
	file    *os.File
	hash    hash.Hash // of what the file holds
	have    int64     // bytes that the file holds
	resumed bool      // a part of them is from an earlier call
}

// passing is an error that may be gone at the next attempt.
type passing struct {
	err   error
	after time.Duration // that the server asks to wait
}

func (p *passing) Error() string { return p.err.Error() }
func (p *passing) Unwrap() error { return p.err }

// begin takes in what the file holds.
func (g *get) begin() error {
	n, err := io.Copy(g.hash, io.NewSectionReader(g.file, 0, 1<<62))
	if err != nil {
		return err
	}
	g.have, g.resumed = n, n > 0
	if n > g.Limit {
		return g.restart()
	}
	return nil
}

// restart forgets what the file holds.
func (g *get) restart() error {
	g.hash.Reset()
	g.have, g.resumed = 0, false
	return g.file.Truncate(0)
}

func (g *get) attempt(ctx context.Context) error {
	if g.have > 0 && digest.Sum(g.hash) == g.Digest {
		return nil
	}
	if g.have > 0 && g.have == g.Size {
		return g.mismatch()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer stalled.Stop()
	resp, err := g.ask(ctx)
	if err != nil {
		return unreachable(orCause(ctx, Cause(err)))
	}
	defer resp.Body.Close()
	if err := g.answer(resp); err != nil {
		return err
	}
	if err := g.receive(ctx, resp, stalled); err != nil {
		return err
	}
	if digest.Sum(g.hash) != g.Digest {
		return g.mismatch()
	}
	return nil
}

func (g *get) ask(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	if g.Accept != "" {
		req.Header.Set("Accept", g.Accept)
	}
	if g.have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", g.have))
	}
	return g.Client.Do(req)
}

// answer decides what an answer's status means.
func (g *get) answer(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return g.restart() // it sends the whole, whatever was asked for
	case code == http.StatusPartialContent && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", g.have)):
		return nil
	case code == http.StatusPartialContent, code == http.StatusRequestedRangeNotSatisfiable:
		if g.have == 0 {
			return fmt.Errorf("%w: it answers %s", ErrUnavailable, status(resp.StatusCode))
		}
		return errors.Join(&passing{err: fmt.Errorf("the server answers %s", status(resp.StatusCode))}, g.restart())
	}
	return g.refuse(resp)
}

// refuse is the error about an answer without content.
func (g *get) refuse(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return &passing{err: fmt.Errorf("the server answers %s", status(code)), after: retryAfter(resp)}
	default:
		return fmt.Errorf("%w: it answers %s", ErrUnavailable, status(code))
	}
}

// status is a status in our own words: those of a server may be anything.
func status(code int) string { return fmt.Sprintf("%d %s", code, http.StatusText(code)) }

// stall is how long a server may send nothing.
const stall = 30 * time.Second

var errStalled = fmt.Errorf("the server has sent nothing for %v", stall)

// receive appends the body to the file.
func (g *get) receive(ctx context.Context, resp *http.Response, stalled *time.Timer) error {
	whole := g.Size
	if whole < 0 && resp.ContentLength >= 0 {
		whole = g.have + resp.ContentLength
	}
	buffer := make([]byte, 256<<10)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			stalled.Reset(stall)
			if g.have+int64(n) > g.Limit {
				return errors.Join(fmt.Errorf("%w: it has more than %d bytes", digest.ErrMismatch, g.Limit), g.restart())
			}
			if _, err := g.file.WriteAt(buffer[:n], g.have); err != nil {
				return fmt.Errorf("keep what arrived: %w", err)
			}
			g.hash.Write(buffer[:n])
			g.have += int64(n)
			if g.Progress != nil {
				g.Progress(g.have, whole)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil // the whole, as the server has it
		}
		if err != nil {
			return &passing{err: orCause(ctx, Cause(err))}
		}
	}
}

// mismatch is the error about a whole with another digest. What is of an earlier call is
// suspected first.
func (g *get) mismatch() error {
	err := fmt.Errorf("%w: it has %s, not %s", digest.ErrMismatch, digest.Sum(g.hash), g.Digest)
	if g.resumed {
		err = &passing{err: err}
	}
	return errors.Join(err, g.restart())
}

// unreachable tells servers that cannot be trusted from those that may answer later.
func unreachable(err error) error {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) || errors.Is(err, errRedirect) {
		return err
	}
	return &passing{err: err}
}

// orCause prefers the reason why ctx ended, if it has.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// longestWait bounds what a server may ask to wait.
const longestWait = 2 * time.Minute

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestWait)
}

// pause is how long to wait after failures in a row, from 1: anything up to a window of 1s
// that doubles up to 30s. random is in [0, 1).
func pause(failures int, random float64) time.Duration {
	window := 30 * time.Second
	if failures <= 5 {
		window = time.Second << (failures - 1)
	}
	return window/4 + time.Duration(random*float64(window)*3/4)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
