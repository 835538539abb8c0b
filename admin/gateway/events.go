package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
)

// piece is how much of an answer is written under one deadline, so that a reader of much has
// more time than one of little.
const piece = 64 << 10

// retryAfter is when a browser that has lost its stream comes back.
const retryAfter = time.Second

// Events is an answer of server-sent events. It is for one goroutine.
type Events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	now     func() time.Time // of this box, whatever others are told: it sets deadlines
	last    uint64
	buf     bytes.Buffer
}

// NewEvents returns the answer to a request. Whoever takes less than 64 KiB, or the end of
// what there is, in as long as timeout has its connection cut.
func NewEvents(w http.ResponseWriter, timeout time.Duration) *Events {
	return &Events{w: w, control: http.NewResponseController(w), timeout: timeout, now: time.Now}
}

// Begin sends the head of the answer.
func (e *Events) Begin() error {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy is not to collect what should be seen now
	e.w.WriteHeader(http.StatusOK)
	fmt.Fprintf(&e.buf, "retry: %d\n\n", retryAfter.Milliseconds())
	return e.Flush()
}

// Send sends an event whose data, JSON, has no line break.
func (e *Events) Send(name string, data []byte) error {
	e.Add(name, data)
	return e.Flush()
}

// Add puts an event where the next Flush sends it from.
func (e *Events) Add(name string, data []byte) {
	e.last++
	e.buf.WriteString("id: ")
	e.buf.WriteString(strconv.FormatUint(e.last, 10))
	e.buf.WriteString("\nevent: ")
	e.buf.WriteString(name)
	e.buf.WriteString("\ndata: ")
	e.buf.Write(bytes.ReplaceAll(data, []byte("\n"), nil))
	e.buf.WriteString("\n\n")
}

// Comment sends a line that means nothing, so that both ends know of each other.
func (e *Events) Comment(text string) error {
	e.buf.WriteString(": ")
	e.buf.WriteString(text)
	e.buf.WriteString("\n\n")
	return e.Flush()
}

// Flush sends what was added.
func (e *Events) Flush() error {
	defer e.buf.Reset()
	for more := true; more; more = e.buf.Len() > 0 {
		// Not every connection has deadlines; where one has none, the reader is not cut.
		_ = e.control.SetWriteDeadline(e.now().Add(e.timeout))
		if _, err := e.w.Write(e.buf.Next(piece)); err != nil {
			return err
		}
	}
	return e.control.Flush()
}

func (e *Events) message(name string, m proto.Message) error {
	data, err := marshaling.Marshal(m)
	if err != nil {
		return err
	}
	return e.Send(name, data)
}
