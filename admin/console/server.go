package console

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"nstance.dev/admin/gateway"
	"nstance.dev/admin/hub"
	"nstance.dev/protos/identity"
)

// Options are what a [Server] works with. Fields without a default are required.
type Options struct {
	Who     identity.Peer // whose identity the connections have
	Version string
	Hub     *hub.Hub
	Gateway *gateway.Gateway

	// AllowActions lets pages change things, unless who is a viewer.
	AllowActions bool
	// Hosts are names beside those of this box by which browsers may call the console.
	Hosts []string
	// Secure says that browsers come over TLS.
	Secure bool
	// Cookie is the name of the cookie; nstance-console.
	Cookie string
	// LoggedIn is told when the token of the address was used, with the next one; nil:
	// nobody is. While it blocks, that browser alone waits.
	LoggedIn func(token string)

	Session      time.Duration    // how long a browser stays logged in, whatever it does; 12h
	Heartbeat    time.Duration    // between signs of life on a stream; 15s
	WriteTimeout time.Duration    // how long a browser may take nothing; 30s
	Collect      time.Duration    // how long changes are collected; 100ms
	Streams      int              // at once; 256
	Now          func() time.Time // time.Now
}

func (o *Options) defaults() {
	for _, d := range []struct {
		field     *time.Duration
		otherwise time.Duration
	}{{&o.Session, 12 * time.Hour}, {&o.Heartbeat, 15 * time.Second}, {&o.WriteTimeout, 30 * time.Second}, {&o.Collect, 100 * time.Millisecond}} {
		if *d.field <= 0 {
			*d.field = d.otherwise
		}
	}
	if o.Streams <= 0 {
		o.Streams = 256
	}
	if o.Cookie == "" {
		o.Cookie = "nstance-console"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Server is the console. It is safe for concurrent use.
type Server struct {
	opts    Options
	pages   *pages
	streams chan struct{} // a place for each

	mu       sync.Mutex
	token    string             // that works once
	sessions map[string]session // by the cookie's value
}

// session is a browser that was let in. It ends at its time, and its streams with it.
type session struct {
	action string // what it shows before it changes anything
	ends   time.Time
}

// maxSessions is how many browsers may be logged in; the oldest is forgotten.
const maxSessions = 256

// New returns a console that nobody is logged in at.
func New(opts Options) (*Server, error) {
	opts.defaults()
	pages, err := readPages()
	if err != nil {
		return nil, err
	}
	return &Server{opts: opts, pages: pages, streams: make(chan struct{}, opts.Streams), token: secret(), sessions: map[string]session{}}, nil
}

// Token returns what the next browser logs in with, as ?token=.
func (s *Server) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// secret returns 256 random bits as text.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	if err := s.sameSite(r); err != nil {
		gateway.WriteError(w, err)
		return
	}
	if r.URL.Query().Has("token") && r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") {
		s.login(w, r)
		return
	}
	who, in := s.sessionOf(r)
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/") && !in:
		gateway.WriteError(w, gateway.Errorf(codes.Unauthenticated, "NOT_LOGGED_IN", "not logged in, or the session is over: open the address that nstance-admin console printed last"))
	case strings.HasPrefix(r.URL.Path, "/api/"):
		s.serveAPI(w, r, who)
	case !in && !s.pages.public(r.URL.Path):
		s.pages.stranger(w)
	default:
		s.pages.serve(w, r)
	}
}

// serveAPI answers a browser that is logged in.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request, who session) {
	w.Header().Set("Cache-Control", "no-store")
	path := strings.TrimPrefix(r.URL.Path, "/api")
	switch {
	case path == "/console/session" && r.Method == http.MethodGet:
		s.writeSession(w, who)
	case path == "/console/events" && r.Method == http.MethodGet:
		s.events(w, r, who)
	case path == "/console/history" && r.Method == http.MethodGet:
		q := r.URL.Query()
		samples := s.opts.Hub.History(q.Get("shard"), q.Get("group"))
		writeJSON(w, map[string]any{"samples": append([]hub.Sample{}, samples...)})
	case strings.HasPrefix(path, "/v1/"), path == "/openapi.json":
		s.call(w, r, path, who)
	default:
		gateway.WriteError(w, gateway.Errorf(codes.NotFound, "", "there is no %s %s", r.Method, r.URL.Path))
	}
}

// call passes a call on. Of what changes something only those come through that the page
// itself makes.
func (s *Server) call(w http.ResponseWriter, r *http.Request, path string, who session) {
	inner := r.Clone(r.Context())
	inner.URL.Path = path
	inner.URL.RawPath = ""
	if raw, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api"); ok {
		inner.URL.RawPath = raw
	}
	if gateway.Reads(inner) {
		s.opts.Gateway.For(gateway.Access{}).ServeHTTP(w, inner)
		return
	}
	switch {
	case !s.mayAct():
		gateway.WriteError(w, gateway.Errorf(codes.PermissionDenied, "ACTIONS_OFF",
			"this console may only look: start it with --allow-actions, and with the identity of an operator"))
	case !equal(r.Header.Get("X-Nstance-Token"), who.action):
		gateway.WriteError(w, gateway.Errorf(codes.PermissionDenied, "BAD_TOKEN", "the header X-Nstance-Token is not that of this session: load the page again"))
	default:
		s.opts.Gateway.For(gateway.Access{Write: true}).ServeHTTP(w, inner)
	}
}

func (s *Server) mayAct() bool {
	return s.opts.AllowActions && s.opts.Who.Role == identity.RoleOperator
}

// actions are what pages may offer.
var actions = []string{"scale", "pause", "replace", "delete", "drained", "refresh", "confirm"}

// sessionUser is whose identity the console has.
type sessionUser struct {
	ID       identity.ID   `json:"id"`
	Tenant   string        `json:"tenant"`
	Role     identity.Role `json:"role"`
	NotAfter time.Time     `json:"notAfter"`
}

func (s *Server) writeSession(w http.ResponseWriter, who session) {
	out := struct {
		Cluster     string      `json:"cluster"`
		User        sessionUser `json:"user"`
		Version     string      `json:"version"`
		Shards      []string    `json:"shards"`
		Actions     []string    `json:"actions"`
		ActionToken string      `json:"actionToken,omitempty"`
		Now         time.Time   `json:"now"`
	}{
		Cluster: s.opts.Who.Cluster,
		User:    sessionUser{s.opts.Who.ID, s.opts.Who.Tenant, s.opts.Who.Role, s.opts.Who.NotAfter.UTC()},
		Version: s.opts.Version, Shards: s.opts.Hub.Shards(), Actions: []string{}, Now: s.opts.Now().UTC(),
	}
	if s.mayAct() {
		out.Actions, out.ActionToken = actions, who.action
	}
	writeJSON(w, out)
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		gateway.WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // whoever does not read it is gone
}
