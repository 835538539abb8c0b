package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// RoundTripper returns a transport that hands requests to h in the caller's
// goroutine. An answer that h loses, by a panic with [http.ErrAbortHandler], shows
// as [io.ErrUnexpectedEOF], as it does when a connection breaks; where the
// request's context has ended, as that context's error. Answers arrive as a whole.
func RoundTripper(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ http.Handler }

// RoundTrip implements [http.RoundTripper].
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
	}()
	if err := r.Context().Err(); err != nil {
		return nil, context.Cause(r.Context())
	}
	w := &recorder{header: http.Header{}}
	if !p.serve(w, received(r)) {
		if r.Context().Err() != nil {
			return nil, context.Cause(r.Context())
		}
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, io.ErrUnexpectedEOF)
	}
	return w.response(r), nil
}

// serve reports whether h answered.
func (p inProcess) serve(w http.ResponseWriter, r *http.Request) (answered bool) {
	defer func() {
		v := recover()
		if err, is := v.(error); is && errors.Is(err, http.ErrAbortHandler) {
			answered = false
		} else if v != nil {
			panic(v)
		}
	}()
	p.ServeHTTP(w, r)
	return true
}

// received is what a server sees of a request that a client sends.
func received(r *http.Request) *http.Request {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	in.RemoteAddr = "192.0.2.1:40000" // of the block for examples, RFC 5737
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.ContentLength > 0 {
		in.Header.Set("Content-Length", strconv.FormatInt(in.ContentLength, 10))
	}
	in.Close = false
	return in
}

// recorder holds an answer until it is complete.
type recorder struct {
	header http.Header
	status int    // 0 until the header is written
	reason string // of the status line; empty: the standard one
	sent   http.Header
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

// Write implements [http.ResponseWriter].
func (w *recorder) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(data)
}

func (w *recorder) response(r *http.Request) *http.Response {
	w.WriteHeader(http.StatusOK)
	if w.sent.Get("Content-Type") == "" && w.body.Len() > 0 {
		w.sent.Set("Content-Type", http.DetectContentType(w.body.Bytes()))
	}
	length := int64(w.body.Len())
	body := io.NopCloser(&w.body)
	if r.Method == http.MethodHead {
		body = http.NoBody
	}
	reason := w.reason
	if reason == "" {
		reason = http.StatusText(w.status)
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", w.status, reason),
		StatusCode: w.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        w.sent,
		Body:          body,
		ContentLength: length,
		Request:       r,
	}
}
