package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	rest "nstance.dev/admin/gateway/rest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// maxBody bounds what a request may carry, as a shard does.
const maxBody = 4 << 20

// Shard is one of those that a gateway leads to.
type Shard struct {
	Name string
	Conn grpc.ClientConnInterface
	// Leader is the address that answered last; nil: not known.
	Leader func() string
}

// Options are the settings of a Gateway; zero fields take the defaults.
type Options struct {
	Heartbeat    time.Duration    // between signs of life on a stream; 15s
	WriteTimeout time.Duration    // how long a reader of a stream may take nothing; 30s
	FirstAnswer  time.Duration    // how long a stream waits for its first event, or an error, before it begins; 2s
	Streams      int              // at once, of all callers; 64
	Now          func() time.Time // time.Now
}

func (o Options) withDefaults() Options {
	if o.Heartbeat <= 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.FirstAnswer <= 0 {
		o.FirstAnswer = 2 * time.Second
	}
	if o.Streams <= 0 {
		o.Streams = 64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Access is what a caller may do.
type Access struct {
	// Write lets it change things. Without, it may read.
	Write bool
}

// Gateway leads to the shards of one cluster. It is safe for concurrent use.
type Gateway struct {
	opts    Options
	names   []string // sorted
	shards  map[string]*shard
	streams chan struct{} // a place for each
}

// shard is a Shard with its calls.
type shard struct {
	Shard
	api   nstancev1.OperatorServiceClient
	calls *runtime.ServeMux
}

// New returns a gateway to some shards.
func New(shards []Shard, opts Options) (*Gateway, error) {
	g := &Gateway{opts: opts.withDefaults(), shards: map[string]*shard{}}
	g.streams = make(chan struct{}, g.opts.Streams)
	for _, s := range shards {
		if g.shards[s.Name] != nil {
			return nil, fmt.Errorf("shard %s: it is named twice", s.Name)
		}
		in := &shard{Shard: s, api: nstancev1.NewOperatorServiceClient(s.Conn), calls: newCalls()}
		if err := rest.RegisterOperatorServiceHandlerClient(context.Background(), in.calls, in.api); err != nil {
			return nil, fmt.Errorf("shard %s: %w", s.Name, err)
		}
		g.shards[s.Name] = in
		g.names = append(g.names, s.Name)
	}
	slices.Sort(g.names)
	return g, nil
}

func newCalls() *runtime.ServeMux {
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{MarshalOptions: marshaling}),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
			WriteError(w, err)
		}),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
			writeRouting(w, r, code)
		}),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithMetadata(func(context.Context, *http.Request) metadata.MD { return nil }),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllCharacters),
		runtime.SetQueryParameterParser(strictQuery{}),
		runtime.WithWriteContentLength(),
	)
}

// marshaling leaves out what is zero, as the contract's text form does.
var marshaling = protojson.MarshalOptions{}

// For returns the API for a caller who may do so much.
func (g *Gateway) For(access Access) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		g.serve(w, r, access)
	})
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, access Access) {
	if !access.Write && !Reads(r) {
		WriteError(w, Errorf(codes.PermissionDenied, "READ_ONLY", "%s %s changes something, and this caller may only read", r.Method, r.URL.Path))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	switch path := r.URL.Path; {
	case path == "/v1/shards":
		only(w, r, http.MethodGet, g.listShards)
	case path == "/openapi.json":
		only(w, r, http.MethodGet, serveDocument)
	case path == "/config/status":
		only(w, r, http.MethodGet, g.configStatus)
	case path == "/config/refresh":
		only(w, r, http.MethodPost, g.configRefresh)
	case path == "/group/scale":
		only(w, r, http.MethodPost, g.groupScale)
	default:
		g.serveShard(w, r)
	}
}

// Reads reports whether a request changes nothing.
func Reads(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return !strings.HasSuffix(r.URL.Path, "/watch/instances") || !coordinatesDrains(r)
	case http.MethodPost:
		_, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/shards/"), "/")
		return ok && rest == "config:plan"
	}
	return false
}

// serveShard carries out a call of one shard.
func (g *Gateway) serveShard(w http.ResponseWriter, r *http.Request) {
	rest, below := strings.CutPrefix(r.URL.EscapedPath(), "/v1/shards/")
	name, path, deeper := strings.Cut(rest, "/")
	if !below || !deeper {
		writeRouting(w, r, http.StatusNotFound)
		return
	}
	s := g.shards[name]
	if s == nil {
		WriteError(w, Errorf(codes.NotFound, "UNKNOWN_SHARD", "shard: %q must be one of %s", name, strings.Join(g.names, ", ")))
		return
	}
	if what, watch := strings.CutPrefix(path, "watch/"); watch {
		only(w, r, http.MethodGet, func(w http.ResponseWriter, r *http.Request) { g.watch(w, r, s, what) })
		return
	}
	if path == "certificate:renew" {
		WriteError(w, Errorf(codes.PermissionDenied, "NOT_OVER_HTTP",
			"a certificate is renewed by its owner, and here it would be the gateway's own: call RenewCertificate over gRPC with the certificate itself, "+
				"or make another one with nstance-admin cluster register-operator"))
		return
	}
	inner, err := plain(r, "/"+path)
	if err != nil {
		WriteError(w, err)
		return
	}
	s.calls.ServeHTTP(w, inner)
}

// plain is a request as a shard gets it: without headers, so that nothing of what the caller
// proves itself with goes on, and with a body in JSON.
func plain(r *http.Request, path string) (*http.Request, error) {
	inner := r.Clone(r.Context())
	inner.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	inner.Host, inner.RemoteAddr = "", ""
	inner.URL = &url.URL{RawQuery: r.URL.RawQuery, RawPath: path}
	unescaped, err := url.PathUnescape(path)
	if err != nil {
		return nil, Errorf(codes.InvalidArgument, "BAD_PATH", "path: %v", err)
	}
	inner.URL.Path = unescaped
	if r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return inner, nil
	}
	for name := range r.URL.Query() {
		return nil, Errorf(codes.InvalidArgument, "UNKNOWN_PARAMETER", "parameter %q: a call with a body has none", name)
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case path == "/config:plan" && (kind == "application/jsonc" || kind == "text/plain"):
		return wrapped(inner)
	case kind != "application/json":
		return nil, Errorf(codes.InvalidArgument, "BAD_CONTENT_TYPE", "Content-Type: it is %q, and must be application/json", kind)
	}
	return readWhole(inner)
}

// readWhole reads the body, so that one that is too long is told from one that is no JSON.
func readWhole(r *http.Request) (*http.Request, error) {
	data, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	return withBody(r, data), nil
}

// wrapped makes a request to plan a configuration of the configuration itself.
func wrapped(r *http.Request) (*http.Request, error) {
	data, err := readBody(r)
	if err != nil {
		return nil, err
	}
	data, err = json.Marshal(map[string][]byte{"config": data})
	if err != nil {
		return nil, err
	}
	return withBody(r, data), nil
}

func withBody(r *http.Request, data []byte) *http.Request {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return r
}

func readBody(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return nil, &statusError{code: http.StatusRequestEntityTooLarge,
			st: status.Newf(codes.ResourceExhausted, "the body is longer than %d bytes", maxBody)}
	}
	if err != nil {
		return nil, Errorf(codes.InvalidArgument, "BAD_BODY", "body: %v", err)
	}
	return data, nil
}

// only lets requests of one method through.
func only(w http.ResponseWriter, r *http.Request, method string, next http.HandlerFunc) {
	if r.Method != method {
		w.Header().Set("Allow", method)
		writeRouting(w, r, http.StatusMethodNotAllowed)
		return
	}
	next(w, r)
}
