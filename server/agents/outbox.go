package agents

import (
	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Bounds of what waits to be sent on one stream (S22). What does not fit is not
// sent: it follows from the state and is derived again later.
const (
	queueMessages = 16
	queueBytes    = 8 << 20
)

// outbox is what waits to be sent on a stream. The zero value is empty.
type outbox struct {
	messages []*nstancev1.ServerMessage
	bytes    int
	sending  bool // somebody takes until nothing is left
	starved  bool // something did not fit since the queue was last empty
}

// put adds a message if it fits. It says whether it did, and whether somebody has to begin
// to take.
func (o *outbox) put(msg *nstancev1.ServerMessage) (fits, begin bool) {
	size := proto.Size(msg)
	if len(o.messages) >= queueMessages || o.bytes+size > queueBytes {
		o.starved = true
		return false, false
	}
	o.messages = append(o.messages, msg)
	o.bytes += size
	begin, o.sending = !o.sending, true
	return true, begin
}

// room is how many more messages fit if they are small.
func (o *outbox) room() int {
	room := queueMessages - len(o.messages)
	o.starved = o.starved || room == 0
	return room
}

// take returns the next message. Nil: nothing is left, and whoever took is to stop; then
// starved says whether something had not fitted.
func (o *outbox) take() (msg *nstancev1.ServerMessage, starved bool) {
	if len(o.messages) == 0 {
		starved = o.starved
		*o = outbox{}
		return nil, starved
	}
	msg = o.messages[0]
	o.messages[0] = nil
	o.messages = o.messages[1:]
	o.bytes -= proto.Size(msg)
	return msg, false
}

// clear drops what waits. Who takes finds out.
func (o *outbox) clear() { o.messages, o.bytes = nil, 0 }
