// Package httpapi lets programs call the HTTP API over the network: it finds out who calls,
// and leads each to the gateway of its tenant.
//
// A caller proves itself with a client certificate of the cluster, of an operator or a
// viewer, whose tenant and role count, or with a bearer token, which is bound to a tenant
// and to reading or writing. A tenant for which there is no gateway answers like one that
// does not exist. Who calls is found out again while a call lasts, so a stream ends soon
// after its token was revoked, or its certificate has ended. What a page of another site
// has a browser send is refused, whatever certificate the browser has.
package httpapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"nstance.dev/admin/gateway"
	"nstance.dev/admin/tokens"
	"nstance.dev/protos/identity"
	"nstance.dev/server/pki"
)

const (
	// lookAgain is how often it is asked whether the caller of a call that lasts may still call.
	lookAgain = 2 * time.Second
	// longestCall is how long a call may take with its answer. A stream has deadlines of its own.
	longestCall = 2 * time.Minute
	// lastMoment is how long calls get to end when the server ends, before their contexts do.
	lastMoment = 500 * time.Millisecond
)

// Options are what a [Server] works with.
type Options struct {
	Cluster  string
	Gateways map[string]*gateway.Gateway // by tenant
	// Tokens says what a token opens; nil: none does.
	Tokens func(token string) (tokens.Token, error)
	// Calls is how many of one tenant are answered at once, streams included, and how many callers may be asked
	// who they are at once; 256.
	Calls int
	// BodyTimeout is how long a caller may take to send what it sends; 30s.
	BodyTimeout time.Duration
	Now         func() time.Time // time.Now
	Log         *slog.Logger     // slog.Default
}

// Server answers calls. It is safe for concurrent use.
type Server struct {
	opts  Options
	sites *http.CrossOriginProtection
	door  chan struct{}            // a place for each who is asked who it is
	calls map[string]chan struct{} // a place for each call, by tenant: none takes another's
	clock func() time.Time         // of this box, whatever Options.Now says: it sets deadlines

	mu     sync.Mutex
	logged time.Time // when a refusal was, last
	missed int       // refusals since then
}

// New returns a server that listens nowhere.
func New(opts Options) *Server {
	if opts.Calls <= 0 {
		opts.Calls = 256
	}
	if opts.BodyTimeout <= 0 {
		opts.BodyTimeout = 30 * time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	s := &Server{
		opts: opts, sites: http.NewCrossOriginProtection(), door: make(chan struct{}, opts.Calls), calls: map[string]chan struct{}{}, clock: time.Now,
	}
	for tenant := range opts.Gateways {
		s.calls[tenant] = make(chan struct{}, opts.Calls)
	}
	return s
}

// TLS returns the settings of a listener: a caller may bring a client certificate, and one
// that it brings must be of the cluster's authority and made for clients.
func TLS(cert tls.Certificate, clients *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients, NextProtos: []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // every connection shows its certificate anew
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return nil
			}
			return pki.VerifyClient(state)
		},
	}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, "ok\n") // whoever does not read it is gone
			return
		}
	}
	tenant, access, err := s.admit(r)
	if err != nil {
		s.logRefusal(r, err)
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="nstance"`)
		}
		gateway.WriteError(w, err)
		return
	}
	leave, err := enter(s.calls[tenant])
	if err != nil {
		gateway.WriteError(w, err)
		return
	}
	defer leave()
	if r.Body != nil && r.Body != http.NoBody {
		// Not every connection has deadlines; a body ends with its connection then.
		_ = http.NewResponseController(w).SetReadDeadline(s.clock().Add(s.opts.BodyTimeout))
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	go s.watchOver(ctx, r, tenant, access, end)
	s.opts.Gateways[tenant].For(access).ServeHTTP(w, r.WithContext(ctx))
}

// enter takes one of the places, until leave is called.
func enter(places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, gateway.Errorf(codes.ResourceExhausted, "TOO_MANY_CALLS", "%d calls are answered already, which is as many as there may be", cap(places))
	}
}

// admit returns whose call it is, of a tenant that has a gateway.
func (s *Server) admit(r *http.Request) (tenant string, access gateway.Access, err error) {
	leave, err := enter(s.door)
	if err != nil {
		return "", access, err
	}
	defer leave()
	tenant, access, err = s.authenticate(r)
	if err == nil && s.opts.Gateways[tenant] == nil {
		err = gateway.Errorf(codes.PermissionDenied, "UNKNOWN_TENANT", "this API does not serve the tenant of the caller")
	}
	return tenant, access, err
}

// watchOver ends a call that lasts once its caller may do less than when it began.
func (s *Server) watchOver(ctx context.Context, r *http.Request, tenant string, access gateway.Access, end context.CancelCauseFunc) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		nowTenant, nowAccess, err := s.authenticate(r)
		if err == nil && (nowTenant != tenant || nowAccess != access) {
			err = gateway.Errorf(codes.Unauthenticated, "RIGHTS_CHANGED", "what the caller may do has changed: call again")
		}
		if err != nil {
			end(err)
			return
		}
	}
}

// logRefusal writes one line a second at most: whoever may not call must not fill the log.
func (s *Server) logRefusal(r *http.Request, err error) {
	now := s.clock()
	s.mu.Lock()
	missed := s.missed
	if now.Sub(s.logged) < time.Second {
		s.missed++
		s.mu.Unlock()
		return
	}
	s.logged, s.missed = now, 0
	s.mu.Unlock()
	s.opts.Log.WarnContext(r.Context(), "call refused", "remote", r.RemoteAddr, "method", r.Method, "path", r.URL.Path, "error", err, "others", missed)
}

// authenticate returns whose call it is. A token counts where there is one: who brings a
// wrong one is told so, whatever else it brings.
func (s *Server) authenticate(r *http.Request) (tenant string, access gateway.Access, err error) {
	if values := r.Header.Values("Authorization"); len(values) > 0 {
		return s.bearer(values)
	}
	if err := s.otherSite(r); err != nil {
		return "", access, err
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates) == 0 {
		return "", access, gateway.Errorf(codes.Unauthenticated, "NO_CREDENTIALS", "send a token as Authorization: Bearer, or a client certificate of the cluster")
	}
	who, err := identity.PeerFromCertificate(r.TLS.PeerCertificates[0])
	if err == nil {
		err = who.RequireOperates()
	}
	switch {
	case errors.Is(err, identity.ErrRole):
		return "", access, gateway.Errorf(codes.PermissionDenied, "WRONG_ROLE", "%v", err)
	case err != nil:
		return "", access, gateway.Errorf(codes.Unauthenticated, "BAD_CERTIFICATE", "%v", err)
	case who.Cluster != s.opts.Cluster:
		return "", access, gateway.Errorf(codes.Unauthenticated, "BAD_CERTIFICATE", "the certificate is one of another cluster")
	case !s.opts.Now().Before(who.NotAfter):
		return "", access, gateway.Errorf(codes.Unauthenticated, "CERTIFICATE_EXPIRED", "the certificate has ended")
	}
	return who.Tenant, gateway.Access{Write: who.Role == identity.RoleOperator}, nil
}

// otherSite refuses what a page of another site has a browser send. A browser shows its
// certificate with that, too, and a stream changes something that is opened with GET.
func (s *Server) otherSite(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "cross-site" && site != "same-site" && s.sites.Check(r) == nil {
		return nil
	}
	return gateway.Errorf(codes.PermissionDenied, "OTHER_SITE", "a page of another site has sent this request; programs send a token, or neither Origin nor Sec-Fetch-Site")
}

func (s *Server) bearer(values []string) (tenant string, access gateway.Access, err error) {
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || len(values) != 1 || !strings.EqualFold(scheme, "Bearer") || s.opts.Tokens == nil {
		return "", access, gateway.Errorf(codes.Unauthenticated, "BAD_TOKEN", "Authorization: it must be Bearer and one token")
	}
	t, err := s.opts.Tokens(strings.TrimSpace(token))
	switch {
	case errors.Is(err, tokens.ErrExpired):
		return "", access, gateway.Errorf(codes.Unauthenticated, "TOKEN_EXPIRED", "%v", err)
	case errors.Is(err, tokens.ErrUnknown):
		return "", access, gateway.Errorf(codes.Unauthenticated, "BAD_TOKEN", "%v", err)
	case err != nil:
		s.opts.Log.Error("tokens not read", "error", err)
		return "", access, gateway.Errorf(codes.Unavailable, "TOKENS_UNREADABLE", "the tokens could not be read; the log says why")
	}
	return t.Tenant, gateway.Access{Write: t.Access == tokens.Write}, nil
}

// Listen serves a handler until ctx ends, then lets calls end for a moment, and ends the
// rest. A nil conf means plain HTTP.
func Listen(ctx context.Context, l net.Listener, conf *tls.Config, h http.Handler, log *slog.Logger) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	server := &http.Server{
		Handler: h, TLSConfig: conf, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: longestCall, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return streams },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() {
		if conf != nil {
			served <- server.ServeTLS(l, "", "")
			return
		}
		served <- server.Serve(l)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	defer time.AfterFunc(lastMoment, endStreams).Stop() // streams do not end by themselves
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := server.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
