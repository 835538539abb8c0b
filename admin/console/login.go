package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"nstance.dev/admin/gateway"
)

// policy lets a page have what comes from the console itself, and nothing else: no script
// or style that stands in a page, no frame, no other site.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

func harden(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// equal compares secrets in a time that says nothing of them.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1 && b != ""
}

// sameSite refuses what a page of another site could have sent: with the name of another
// host, which by now may be that of this box, or from another origin.
func (s *Server) sameSite(r *http.Request) error {
	if !s.knows(hostOf(r.Host)) {
		return gateway.Errorf(codes.PermissionDenied, "BAD_HOST", "the console is not called %q: use the address that it has printed, or start it with --host", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host != r.Host || u.Scheme != s.scheme() {
			return gateway.Errorf(codes.PermissionDenied, "BAD_ORIGIN", "a page of another site has sent this request")
		}
	} else if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return gateway.Errorf(codes.PermissionDenied, "BAD_ORIGIN", "the request does not say which page has sent it")
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "", site == "same-origin", site == "none":
	case r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		!strings.HasPrefix(r.URL.Path, "/api/"):
		// A link may lead here from anywhere. It brings no cookie.
	default:
		return gateway.Errorf(codes.PermissionDenied, "BAD_ORIGIN", "a page of another site has sent this request")
	}
	return nil
}

func (s *Server) scheme() string {
	if s.opts.Secure {
		return "https"
	}
	return "http"
}

// hostOf is a host without its port, which a tunnel may change.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

// knows reports whether the console is called so.
func (s *Server) knows(host string) bool {
	host = strings.ToLower(host)
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() || host == "localhost" {
		return true
	}
	return slices.Contains(s.opts.Hosts, host)
}

// login exchanges the token of the address for a cookie.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	cookie, ok := s.spend(r.URL.Query().Get("token"))
	if !ok {
		s.pages.stranger(w)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.opts.Cookie, Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.opts.Secure,
	})
	there := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/\\")}
	w.Header().Set("Location", there.EscapedPath())
	w.WriteHeader(http.StatusSeeOther)
}

// spend makes a session of a token, which is of no use from then on.
func (s *Server) spend(token string) (cookie string, ok bool) {
	cookie, next, ok := s.begin(token)
	if ok && s.opts.LoggedIn != nil {
		s.opts.LoggedIn(next)
	}
	return cookie, ok
}

// begin returns the cookie of a new session, and the next token.
func (s *Server) begin(token string) (cookie, next string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !equal(token, s.token) {
		return "", "", false
	}
	s.token = secret()
	now := s.opts.Now()
	maps.DeleteFunc(s.sessions, func(_ string, who session) bool { return !now.Before(who.ends) })
	if len(s.sessions) >= maxSessions {
		oldest := ""
		for c, other := range s.sessions {
			if oldest == "" || other.ends.Before(s.sessions[oldest].ends) {
				oldest = c
			}
		}
		delete(s.sessions, oldest)
	}
	cookie = secret()
	s.sessions[cookie] = session{action: secret(), ends: now.Add(s.opts.Session)}
	return cookie, s.token, true
}

// sessionOf returns the session whose cookie a request carries, unless it is over.
func (s *Server) sessionOf(r *http.Request) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.CookiesNamed(s.opts.Cookie) {
		if who, ok := s.sessions[c.Value]; ok && s.opts.Now().Before(who.ends) {
			return who, true
		}
	}
	return session{}, false
}
