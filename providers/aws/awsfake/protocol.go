package awsfake

import (
	"encoding/xml"
	"errors"
	"net/http"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// protocol is how one of the two services answers.
type protocol struct {
	name      string // in the scope of a signature
	version   string // of the API
	namespace string // of its answers
	wrapped   bool   // answers and errors have the form of the query protocol, not that of EC2
	faults    map[driver.ErrorClass]apiError
}

// computing is Amazon EC2. Its errors are those of "Error codes for the Amazon EC2
// API".
var computing = &protocol{
	name: "ec2", version: "2016-11-15", namespace: "http://ec2.amazonaws.com/doc/2016-11-15/",
	faults: map[driver.ErrorClass]apiError{
		driver.Throttled:   {http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded."},
		driver.Capacity:    {http.StatusInternalServerError, "InsufficientInstanceCapacity", "We currently do not have sufficient capacity in the Availability Zone you requested."},
		driver.Quota:       {http.StatusBadRequest, "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit allows."},
		driver.Invalid:     {http.StatusBadRequest, "InvalidParameterValue", "A value is not valid."},
		driver.Auth:        {http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation."},
		driver.MissingRef:  {http.StatusBadRequest, "InvalidSubnetID.NotFound", "The subnet ID does not exist"},
		driver.Transient:   {http.StatusServiceUnavailable, "Unavailable", "The service is unavailable. Please try again shortly."},
		driver.Ambiguous:   {http.StatusInternalServerError, "InternalError", "An internal error has occurred"},
		driver.NotFound:    {http.StatusBadRequest, "InvalidInstanceID.NotFound", "The instance ID does not exist"},
		driver.Unsupported: {http.StatusBadRequest, "UnsupportedOperation", "The specified operation is not supported."},
	},
}

// balancing is Elastic Load Balancing. Its errors are those of its API reference,
// under the actions and under "Common errors".
var balancing = &protocol{
	name: "elasticloadbalancing", version: "2015-12-01",
	namespace: "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/", wrapped: true,
	faults: map[driver.ErrorClass]apiError{
		driver.Throttled:   {http.StatusBadRequest, "Throttling", "Rate exceeded"},
		driver.Capacity:    {http.StatusBadRequest, "TooManyTargets", "You've reached the limit on the number of targets."},
		driver.Quota:       {http.StatusBadRequest, "TooManyTargets", "You've reached the limit on the number of targets."},
		driver.Invalid:     {http.StatusBadRequest, "ValidationError", "A value is not valid."},
		driver.Auth:        {http.StatusForbidden, "AccessDenied", "You are not authorized to perform this operation."},
		driver.MissingRef:  {http.StatusBadRequest, "TargetGroupNotFound", "One or more target groups not found"},
		driver.Transient:   {http.StatusServiceUnavailable, "ServiceUnavailable", "The request has failed due to a temporary failure of the server."},
		driver.Ambiguous:   {http.StatusInternalServerError, "InternalFailure", "The request processing has failed because of an unknown error, exception or failure."},
		driver.NotFound:    {http.StatusBadRequest, "InvalidTarget", "The specified target does not exist"},
		driver.Unsupported: {http.StatusBadRequest, "OperationNotPermitted", "This operation is not allowed."},
	},
}

// service returns the protocol of a version, that of EC2 for one that is not known.
func service(version string) *protocol {
	if version == balancing.version {
		return balancing
	}
	return computing
}

// fault is the error that stands for a kind.
func (p *protocol) fault(f wire.Fault) error {
	said, ok := p.faults[f.Kind]
	if !ok {
		said = p.faults[driver.Ambiguous]
	}
	return &said
}

// reply is what every answer of EC2 begins with.
type reply struct {
	RequestID string `xml:"requestId"`
}

func (r *reply) of(request string) { r.RequestID = request }

// answer writes the result of an action, which has a reply in it if it is one of
// EC2's.
func (p *protocol) answer(w http.ResponseWriter, action, request string, result any) {
	root := p.element(action + "Response")
	if !p.wrapped {
		if r, ok := result.(interface{ of(request string) }); ok {
			r.of(request)
		}
		write(w, http.StatusOK, request, func(e *xml.Encoder) error { return e.EncodeElement(result, root) })
		return
	}
	write(w, http.StatusOK, request, func(e *xml.Encoder) error {
		return errors.Join(
			e.EncodeToken(root),
			e.EncodeElement(result, xml.StartElement{Name: xml.Name{Local: action + "Result"}}),
			e.EncodeElement(struct{ RequestId string }{request}, xml.StartElement{Name: xml.Name{Local: "ResponseMetadata"}}),
			e.EncodeToken(root.End()),
		)
	})
}

// failure is an error as both services write it.
type failure struct {
	Type    string `xml:",omitempty"` // whose fault it is; EC2 does not say
	Code    string
	Message string
}

// refuse writes an error.
func (p *protocol) refuse(w http.ResponseWriter, request string, err error) {
	said, ok := errors.AsType[*apiError](err)
	if !ok {
		said = &apiError{http.StatusInternalServerError, "InternalError", err.Error()}
	}
	detail := failure{Code: said.code, Message: said.message}
	write(w, said.status, request, func(e *xml.Encoder) error {
		if !p.wrapped {
			return e.EncodeElement(struct {
				Error     failure `xml:"Errors>Error"`
				RequestID string
			}{detail, request}, xml.StartElement{Name: xml.Name{Local: "Response"}})
		}
		detail.Type = "Sender"
		if said.status >= http.StatusInternalServerError {
			detail.Type = "Receiver"
		}
		return e.EncodeElement(struct {
			Error     failure
			RequestID string `xml:"RequestId"`
		}{detail, request}, p.element("ErrorResponse"))
	})
}

func (p *protocol) element(name string) xml.StartElement {
	return xml.StartElement{
		Name: xml.Name{Local: name},
		Attr: []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: p.namespace}},
	}
}

// write sends a document. An error of encode is one of the connection: whoever
// called has gone.
func write(w http.ResponseWriter, status int, request string, encode func(*xml.Encoder) error) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", request)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(xml.Header))
	e := xml.NewEncoder(w)
	_ = encode(e)
	_ = e.Flush()
}
