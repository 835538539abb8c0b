// Package frame puts messages on a stream of bytes and takes them off it: each is preceded by
// its length, four bytes in network order. It is what an agent and the paver of its host
// speak, on either side.
//
// A length beyond [Max] is refused before anything is read, and no memory is taken for bytes
// that have not come. Errors quote nothing of a message, for it may carry secrets.
package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// Max is the longest message, in bytes.
const Max = 4 << 20

var (
	// ErrTooLong says that a message is longer than [Max]. What follows on the stream
	// cannot be read.
	ErrTooLong = errors.New("message is too long")
	// ErrMalformed says that a frame does not hold a message of the kind that was expected.
	// The stream can be read on.
	ErrMalformed = errors.New("message is malformed")
)

// Write writes one message. One that is too long is not begun.
func Write(w io.Writer, m proto.Message) error {
	size := proto.Size(m)
	if size > Max {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLong, size, Max)
	}
	frame, err := proto.MarshalOptions{}.MarshalAppend(binary.BigEndian.AppendUint32(make([]byte, 0, 4+size), uint32(size)), m)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	if len(frame) != 4+size { // somebody has changed it meanwhile
		return fmt.Errorf("%w: it changed while it was written", ErrMalformed)
	}
	_, err = w.Write(frame)
	return err
}

// Read reads one message into m, which it overwrites. The error is [io.EOF] where the stream
// ended between two messages, and [io.ErrUnexpectedEOF] where it ended within one.
func Read(r io.Reader, m proto.Message) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > Max {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLong, size, Max)
	}
	var body bytes.Buffer
	switch n, err := io.CopyN(&body, r, size); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w after %d of %d bytes", io.ErrUnexpectedEOF, n, size)
	case err != nil:
		return err
	}
	if err := proto.Unmarshal(body.Bytes(), m); err != nil {
		return fmt.Errorf("%w: %d bytes are no %s", ErrMalformed, size, m.ProtoReflect().Descriptor().Name())
	}
	return nil
}
