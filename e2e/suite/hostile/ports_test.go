package hostile

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"nstance.dev/server/peers"
)

// httpPorts are attempts on the ports that speak HTTP: the one of probes, and the one that
// servers ask each other on.
func httpPorts() (rows []attempt) {
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/config", "/../../etc/passwd", "/..%2f..%2fetc/passwd"} {
		rows = append(rows, attempt{"S14", path + " on the port of probes", "nothing", func(t *testing.T, w *world) string {
			answer := w.asked(t, w.addrs.Health, nil, "GET", path)
			if code := codeOf(answer); code != "404" && code != "307" && code != "301" { // the path without its dots, which is not there
				return answer
			}
			return "nothing"
		}})
	}
	for _, method := range []string{"POST", "TRACE", "CONNECT"} {
		rows = append(rows, attempt{"S14", method + " on the port of probes", "refused", func(t *testing.T, w *world) string {
			if code := codeOf(w.asked(t, w.addrs.Health, nil, method, "/health")); code != "405" && code != "400" && code != "404" {
				return code
			}
			return "refused"
		}})
	}
	return append(rows,
		attempt{"S12", "everybody who probes reads the metrics of all tenants", "404", func(t *testing.T, w *world) string {
			return codeOf(w.asked(t, w.addrs.Health, nil, "GET", "/metrics"))
		}},
		attempt{"F47", "headers of a megabyte on the port of probes", "431", func(t *testing.T, w *world) string {
			return codeOf(w.asked(t, w.addrs.Health, nil, "GET", "/health", "X-Long: "+strings.Repeat("a", 1<<20)))
		}},
		attempt{"S12", "the port of elections tells of configurations and groups", "leader and address", func(t *testing.T, w *world) string {
			addr := w.electionAddr(t)
			for _, path := range []string{peers.ShardPath, peers.ClusterPath, "/"} {
				answer := w.asked(t, addr, w.anonymous(), "GET", path)
				for _, word := range []string{"etag", "ETag", victim, "mute"} {
					if strings.Contains(answer, word) {
						return answer
					}
				}
			}
			return "leader and address"
		}},
		attempt{"F44", "the port of elections without TLS", "no HTTP", func(t *testing.T, w *world) string {
			if answer := w.asked(t, w.electionAddr(t), nil, "GET", peers.ShardPath); strings.HasPrefix(answer, "HTTP/1.1 2") {
				return answer
			}
			return "no HTTP"
		}},
		attempt{"F44", "the port of elections with TLS 1.2", "handshake: protocol version not supported", func(t *testing.T, w *world) string {
			settings := w.anonymous()
			settings.MinVersion, settings.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			return w.knock(t, w.electionAddr(t), settings)
		}},
		attempt{"S14", "/debug/pprof/ on the port of elections", "404", func(t *testing.T, w *world) string {
			return codeOf(w.asked(t, w.electionAddr(t), w.anonymous(), "GET", "/debug/pprof/"))
		}},
	)
}

// asked makes one request of an HTTP port, with TLS if there are settings, and returns all
// that comes back. The path goes out as it stands.
func (w *world) asked(t *testing.T, addr string, settings *tls.Config, method, path string, headers ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(call(t))
	defer cancel()
	conn, err := dialFrom(w.source())(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // all was read
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	if settings != nil {
		conn = tls.Client(conn, settings)
	}
	host := "Host: nstance\r\n"
	if len(headers) > 0 && strings.HasPrefix(headers[0], "Host: ") {
		host = "" // its own
	}
	request := fmt.Sprintf("%s %s HTTP/1.1\r\n"+host+"Connection: close\r\n%s\r\n\r\n", method, path, strings.Join(headers, "\r\n"))
	request = strings.ReplaceAll(request, "close\r\n\r\n\r\n", "close\r\n\r\n")
	go func() { _, _ = io.WriteString(conn, request) }() // a refusal may come before the end of it
	answer, _ := io.ReadAll(io.LimitReader(conn, 1<<20)) // a connection that is cut has said what it had to say
	return string(answer)
}

// codeOf is the code of an HTTP answer.
func codeOf(answer string) string {
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	if err != nil {
		return fmt.Sprintf("no HTTP: %.80q", answer)
	}
	defer func() { _ = resp.Body.Close() }() // it is a string
	return fmt.Sprint(resp.StatusCode)
}

// electionAddr is where the server is asked by others.
func (w *world) electionAddr(t *testing.T) string {
	t.Helper()
	lock, err := w.Lock()
	if err != nil {
		t.Fatal(err)
	}
	return lock.LeaderAddr
}

var servingMetrics = regexp.MustCompile(`"msg":"serving metrics".*"IP":"([^"]*)","Port":(\d+)`)

// metricsAddr is where the server says that it serves metrics; a release that does not say
// so serves them with the probes.
func (w *world) metricsAddr() string {
	if found := servingMetrics.FindStringSubmatch(w.server.Output()); found != nil {
		return net.JoinHostPort(found[1], found[2])
	}
	return w.addrs.Health
}
