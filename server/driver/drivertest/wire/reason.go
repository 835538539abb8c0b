package wire

import (
	"fmt"
	"net/http"
	"strings"
)

// WriteReason answers with a reason phrase of the cloud's own in the status line,
// which some clouds put their errors into and [http.ResponseWriter] leaves no room
// for. Over a socket the connection has to be HTTP/1.1, and ends with the answer. The
// writer's header is sent as it stands; body may be nil.
func WriteReason(w http.ResponseWriter, status int, reason string, body []byte) {
	reason = strings.Join(strings.Fields(reason), " ")
	if r, ok := w.(*recorder); ok {
		r.reason = reason
		r.WriteHeader(status)
		_, _ = r.Write(body)
		return
	}
	conn, out, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, reason, status)
		return
	}
	defer conn.Close()
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.Header().Set("Connection", "close")
	_, _ = fmt.Fprintf(out, "HTTP/1.1 %d %s\r\n", status, reason)
	_ = w.Header().Write(out)
	_, _ = fmt.Fprintf(out, "\r\n%s", body)
	_ = out.Flush()
}
