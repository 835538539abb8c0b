package extract

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxRatio is how much larger than its compressed form content may be. Root file systems
	// come to 2 to 5, files of zeros to 1,000 and more.
	maxRatio = 200
	// freeRatio is how many bytes may come out before the ratio is looked at.
	freeRatio = 256 << 20
	// maxWindow bounds the memory that decompression takes.
	maxWindow = 128 << 20
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// Decompress returns the content of r, which is compressed with gzip, with zstd or not at
// all. Content that comes out too much larger than it went in is an error that matches
// [ErrRefused]. Close the result; r remains open.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	in := &counted{r: r}
	buffered := bufio.NewReaderSize(in, chunk)
	magic, err := buffered.Peek(len(zstdMagic))
	if err != nil && len(magic) == 0 {
		return nil, fmt.Errorf("read archive: %w", contentError(err))
	}
	var out io.ReadCloser
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		out, err = gzip.NewReader(buffered)
	case bytes.HasPrefix(magic, zstdMagic):
		// One goroutine, the caller's: it ends with the reader.
		var decoder *zstd.Decoder
		decoder, err = zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err == nil {
			out = decoder.IOReadCloser()
		}
	default:
		return io.NopCloser(buffered), nil
	}
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return &bounded{ReadCloser: out, in: in}, nil
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// bounded ends where too much comes out for what went in.
type bounded struct {
	io.ReadCloser
	in  *counted
	out int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.out += int64(n); b.out > freeRatio+maxRatio*b.in.n {
		return n, fmt.Errorf("%w: %d bytes decompress to more than %d", ErrRefused, b.in.n, b.out)
	}
	return n, err
}
