package gateway

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// domain of the reasons for programs, as on the wire.
const domain = "nstance"

// statusError is an error whose HTTP status does not follow from its code alone.
type statusError struct {
	code int
	st   *status.Status
}

func (e *statusError) Error() string              { return e.st.Err().Error() }
func (e *statusError) GRPCStatus() *status.Status { return e.st }

// Errorf returns an error with a reason for programs, as a shard would send it.
func Errorf(c codes.Code, reason, format string, args ...any) error {
	st := status.Newf(c, format, args...)
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: domain})
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

// problem is an error as a caller gets it: google.rpc.Status in JSON, with the name of its
// code and its reason beside it, which spare programs a search.
type problem struct {
	Code    codes.Code        `json:"code"`
	Status  string            `json:"status"`
	Message string            `json:"message"`
	Reason  string            `json:"reason,omitempty"`
	Details []json.RawMessage `json:"details,omitempty"`
}

// WriteError answers a request with an error.
func WriteError(w http.ResponseWriter, err error) {
	text, httpStatus := encodeError(err)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if httpStatus == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(httpStatus)
	_, _ = w.Write(append(text, '\n')) // whoever does not read it is gone
}

func encodeError(err error) (text []byte, httpStatus int) {
	st := status.Convert(err)
	httpStatus = runtime.HTTPStatusFromCode(st.Code())
	if own, ok := errors.AsType[*statusError](err); ok {
		httpStatus = own.code
	}
	p := problem{Code: st.Code(), Status: code.Code_name[int32(st.Code())], Message: st.Message()} //nolint:gosec // a code is small
	for _, detail := range st.Proto().GetDetails() {
		text, err := protojson.Marshal(detail)
		if err != nil {
			continue // of a kind that this program does not know
		}
		p.Details = append(p.Details, text)
		info := &errdetails.ErrorInfo{}
		if detail.MessageIs(info) && detail.UnmarshalTo(info) == nil && info.GetDomain() == domain {
			p.Reason = info.GetReason()
		}
	}
	text, err = json.Marshal(p)
	if err != nil { // it has no value that could not be encoded
		text = []byte(`{"code":13,"status":"INTERNAL","message":"the error could not be encoded"}`)
	}
	return text, httpStatus
}

// writeRouting answers a request for a path, or a method, that there is not.
func writeRouting(w http.ResponseWriter, r *http.Request, httpStatus int) {
	st := status.Newf(codes.NotFound, "there is no %s %s; /openapi.json lists what there is", r.Method, r.URL.Path)
	switch httpStatus {
	case http.StatusMethodNotAllowed:
		st = status.Newf(codes.Unimplemented, "%s does not take %s", r.URL.Path, r.Method)
	case http.StatusBadRequest:
		st = status.Newf(codes.InvalidArgument, "the path %s is malformed", r.URL.Path)
	}
	WriteError(w, &statusError{code: httpStatus, st: st})
}
