package gcpfake

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"
)

// How long the service remembers: a requestId for an hour at least, an operation for
// two weeks. https://docs.cloud.google.com/compute/docs/api/how-tos/idempotent-requests
const (
	requestMemory   = time.Hour
	operationMemory = 14 * 24 * time.Hour
)

// waitLimit is how long a wait for an operation takes at most.
const waitLimit = 2 * time.Minute

// operation is a change that goes on. Its message is what callers see.
type operation struct {
	pb    *computepb.Operation
	scope string // zones/x or regions/x
	until time.Time
}

// begin makes an operation that is under way, on a target by its path below the
// project. The caller holds the lock.
func (c *Cloud) begin(scope, kind, target string, targetID uint64) *operation {
	id := c.id()
	name := fmt.Sprintf("operation-%d-%016x", c.now.UnixMilli(), id)
	started := stamp(c.now)
	op := &operation{scope: scope, until: c.now.Add(operationMemory), pb: &computepb.Operation{
		Kind:          new("compute#operation"),
		Id:            &id,
		Name:          &name,
		OperationType: &kind,
		TargetLink:    new(c.link(target)),
		TargetId:      &targetID,
		Status:        computepb.Operation_RUNNING.Enum(),
		User:          new(c.user()),
		Progress:      proto.Int32(0),
		InsertTime:    &started,
		StartTime:     &started,
		SelfLink:      new(c.link(scope + "/operations/" + name)),
	}}
	switch where, _, _ := strings.Cut(scope, "/"); where {
	case "zones":
		op.pb.Zone = new(c.link(scope))
	case "regions":
		op.pb.Region = new(c.link(scope))
	}
	c.operations[name] = op
	return op
}

// finish ends an operation, well or with a failure. One that is done stays as it is.
// The caller holds the lock.
func (c *Cloud) finish(op *operation, failed *failure) {
	if op.pb.GetStatus() == computepb.Operation_DONE {
		return
	}
	op.pb.Status, op.pb.Progress, op.pb.EndTime = computepb.Operation_DONE.Enum(), proto.Int32(100), new(stamp(c.now))
	if failed != nil {
		failed.set(op.pb)
	}
	c.notify()
}

// uuid is the form of a requestId; that of only zeros is refused.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// once starts an operation, or returns the one that the same requestId started
// before: what it asked for is not done again, whatever became of it meanwhile. A
// call that was refused started none. The caller holds the lock.
func (c *Cloud) once(requestID string, start func() (*operation, error)) (*computepb.Operation, error) {
	if requestID != "" && (!uuid.MatchString(requestID) || strings.Trim(requestID, "0-") == "") {
		return nil, invalidField("requestId", requestID, "The request ID must be a valid UUID.")
	}
	if op := c.requests[requestID]; op != nil {
		return proto.CloneOf(op.pb), nil
	}
	op, err := start()
	if err != nil {
		return nil, err
	}
	c.after(operationMemory, func() { delete(c.operations, op.pb.GetName()) })
	if requestID != "" {
		op.pb.ClientOperationId = &requestID
		c.requests[requestID] = op
		c.after(requestMemory, func() { delete(c.requests, requestID) })
	}
	return proto.CloneOf(op.pb), nil
}

func (c *Cloud) getZoneOperation(_ call, in *computepb.GetZoneOperationRequest) (*computepb.Operation, error) {
	op, err := c.zoneOperation(in.GetProject(), in.GetZone(), in.GetOperation())
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(op.pb), nil
}

// waitZoneOperation answers when the operation is done or two minutes have passed.
func (c *Cloud) waitZoneOperation(about call, in *computepb.WaitZoneOperationRequest) (*computepb.Operation, error) {
	op, err := c.zoneOperation(in.GetProject(), in.GetZone(), in.GetOperation())
	if err != nil {
		return nil, err
	}
	enough := time.NewTimer(waitLimit)
	defer enough.Stop()
	for waiting := true; waiting && op.pb.GetStatus() != computepb.Operation_DONE; {
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-enough.C:
			waiting = false
		case <-about.gone:
			waiting = false
		}
		c.mu.Lock()
	}
	return proto.CloneOf(op.pb), nil
}

func (c *Cloud) listZoneOperations(_ call, in *computepb.ListZoneOperationsRequest) (*computepb.OperationList, error) {
	if err := c.inZone(in.GetProject(), in.GetZone()); err != nil {
		return nil, err
	}
	var all []*computepb.Operation
	for _, op := range c.operations {
		if op.scope == "zones/"+in.GetZone() {
			all = append(all, op.pb)
		}
	}
	items, next, err := paged(c, all, in)
	return &computepb.OperationList{Kind: new("compute#operationList"), Items: items, NextPageToken: next}, err
}

// zoneOperation finds an operation of a zone.
func (c *Cloud) zoneOperation(project, zone, name string) (*operation, error) {
	if err := c.inZone(project, zone); err != nil {
		return nil, err
	}
	op := c.operations[name]
	if op == nil || op.scope != "zones/"+zone {
		return nil, notFound(c.path("zones/" + zone + "/operations/" + name))
	}
	return op, nil
}

// outOfRoom is the failure of a zone without machines of a type.
func (c *Cloud) outOfRoom(zone string) *failure {
	return &failure{http.StatusServiceUnavailable, stockout, fmt.Sprintf("The zone '%s' does not have enough resources available "+
		"to fulfill the request.  Try a different zone, or try again later.", c.path("zones/"+zone))}
}
