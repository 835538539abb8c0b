package extract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	chunk = 128 << 10
	// bytesBetweenChecks bounds how much is written before free space is looked at.
	bytesBetweenChecks = 64 << 20
)

var zeros = make([]byte, chunk)

// fill writes size bytes of content. Runs of zeros become holes: an archive that is mostly
// those takes no room.
func (t *Tree) fill(file *os.File, size int64, content io.Reader) error {
	var at, end int64 // read up to, written up to
	for at < size {
		n, err := io.ReadFull(content, t.buffer[:min(size-at, chunk)])
		if n == 0 || err != nil {
			return contentError(err)
		}
		if part := t.buffer[:n]; n < chunk || !bytes.Equal(part, zeros) {
			if _, err := file.WriteAt(part, at); err != nil {
				return noSpace(err)
			}
			end = at + int64(n)
			if t.unchecked += int64(n); t.unchecked >= bytesBetweenChecks {
				if err := t.checkSpace(); err != nil {
					return err
				}
			}
		}
		at += int64(n)
	}
	if end < size {
		if err := file.Truncate(size); err != nil {
			return noSpace(err)
		}
	}
	return nil
}

func contentError(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("content: %w", err)
}

func noSpace(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}
