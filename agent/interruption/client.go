package interruption

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	// linkLocal is where AWS and Google both have their metadata service.
	linkLocal = "169.254.169.254"
	// askTimeout bounds a question that is answered at once.
	askTimeout = time.Second
	maxAnswer  = 64 << 10
)

// client asks a metadata service.
type client struct {
	http *http.Client
	root string // URL without a path
}

func newClient(o Options) *client {
	host := linkLocal
	dialer := net.Dialer{Control: onlyLinkLocal}
	if o.Addr.IsValid() {
		host = o.Addr.String()
		dialer.Control = only(o.Addr)
	}
	dial := o.DialContext
	if dial == nil {
		dial = dialer.DialContext
	}
	return &client{root: "http://" + host, http: &http.Client{
		Transport: &http.Transport{ // with no Proxy
			DialContext: dial, MaxIdleConns: 2, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: maxAnswer, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// onlyLinkLocal refuses every other address, whatever led there.
func onlyLinkLocal(_, addr string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !ap.Addr().Unmap().IsLinkLocalUnicast() {
		return fmt.Errorf("%s is not a link-local address", addr)
	}
	return nil
}

// only refuses every address but one.
func only(want netip.AddrPort) func(network, addr string, _ syscall.RawConn) error {
	return func(_, addr string, _ syscall.RawConn) error {
		if ap, err := netip.ParseAddrPort(addr); err != nil || ap != want {
			return fmt.Errorf("%s is not the address of the metadata service, %s", addr, want)
		}
		return nil
	}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask makes one request, which has to be answered within the time-out.
func (c *client) ask(ctx context.Context, timeout time.Duration, method, path string, header http.Header) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.root+path, nil)
	if err != nil {
		return answer{}, fmt.Errorf("metadata: %w", err)
	}
	req.Header = header
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("metadata: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("metadata %s: %w", path, err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: string(body)}, nil
}

// unexpected is the error of an answer that nothing can be made of.
func (a answer) unexpected(path string) error {
	return fmt.Errorf("metadata %s: unexpected answer: status %d, %.80q", path, a.status, a.body)
}

// trouble logs what goes wrong, and not again while it stays the same.
type trouble struct {
	log  *slog.Logger
	last string
}

func (t *trouble) note(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != t.last {
		t.log.WarnContext(ctx, "cannot learn whether the cloud takes this machine away", "error", err)
	}
	t.last = text
}
