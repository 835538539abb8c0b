package peers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"nstance.dev/server/lease"
)

// ClientOptions say how a standby asks.
type ClientOptions struct {
	// Path is the lock's: ShardPath or ClusterPath.
	Path string

	// TLS are the settings of the connection: what the other server must prove,
	// and the certificate of this one. It returns nil while these can't be had
	// yet, and another value when they have changed.
	TLS func() *tls.Config

	// Worked is when this server's own probe of the provider last worked, and
	// false if the latest did not. It is told to whoever is asked. May be nil.
	Worked func() (at time.Time, ok bool)

	// Now is the clock of Worked and of what ETags returns; time.Now.
	Now func() time.Time
}

// Client asks the leaders of one lock. It is safe for concurrent use.
type Client struct {
	opts ClientOptions

	mu     sync.Mutex
	config *tls.Config // of http
	http   *http.Client
	etags  ETags
	heard  time.Time // when etags came; zero: the last question was not answered
}

// NewClient returns a client that has no connection yet.
func NewClient(opts ClientOptions) *Client {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Client{opts: opts}
}

// maxAnswer is far more than an answer has.
const maxAnswer = 64 << 10

// Ask returns the document under which the server at addr, host:port, holds the
// lock. The error matches [lease.ErrCannotAsk] while there are no TLS settings.
// The caller bounds the time.
func (c *Client) Ask(ctx context.Context, addr string) (lease.Document, error) {
	doc, etags, err := c.ask(ctx, addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.etags, c.heard = ETags{}, time.Time{}
		return lease.Document{}, fmt.Errorf("ask %s: %w", addr, err)
	}
	c.etags, c.heard = etags, c.opts.Now()
	return doc, nil
}

func (c *Client) ask(ctx context.Context, addr string) (doc lease.Document, etags ETags, err error) {
	client := c.client()
	if client == nil {
		return doc, etags, lease.ErrCannotAsk
	}
	data, err := c.get(ctx, client, addr)
	if err != nil {
		return doc, etags, err
	}
	if doc, err = lease.Decode(data); err != nil {
		return doc, etags, err
	}
	return doc, etags, json.Unmarshal(data, &etags)
}

// ETags are those of the last answer and when it came: the zero time if the last
// question was not answered, for then only storage knows.
func (c *Client) ETags() (ETags, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.etags, c.heard
}

// Close ends the connections that wait for the next question.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

func (c *Client) get(ctx context.Context, client *http.Client, addr string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+c.opts.Path, http.NoBody)
	if err != nil {
		return nil, err
	}
	SayWorked(req.Header, c.opts.Worked, c.opts.Now())
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing is lost with it
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: status %d", lease.ErrNotLeader, resp.StatusCode)
	}
	return data, nil
}

// SayWorked puts what worked says of this server's own probe of the provider
// into the header of a question. A nil worked says nothing.
func SayWorked(h http.Header, worked func() (time.Time, bool), now time.Time) {
	if worked == nil {
		return
	}
	if at, ok := worked(); ok {
		h.Set(workedHeader, max(now.Sub(at), 0).String())
	}
}

// client is for the TLS settings of this moment; nil while there are none.
func (c *Client) client() *http.Client {
	config := c.opts.TLS()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case config == nil:
		return nil
	case config == c.config:
		return c.http
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.config = config
	c.http = &http.Client{
		// A proxy or a redirect could only lead away from the leader.
		Transport: &http.Transport{
			TLSClientConfig: config, MaxIdleConns: 2, MaxResponseHeaderBytes: 8 << 10, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c.http
}
