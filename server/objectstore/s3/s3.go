// Package s3 is an object store in a bucket of Amazon S3, or of a store that
// speaks its protocol and heeds If-None-Match and If-Match.
//
// Credentials, region and endpoint are what the AWS SDK finds in its usual
// places; for other stores AWS_ENDPOINT_URL names the endpoint, and
// AWS_S3_USE_PATH_STYLE=true puts the bucket into the path instead of the host.
// Checksum headers, which many other stores refuse, are sent only where S3
// demands them: the content is covered by the signature.
//
// A write is one request. The SDK's retries, which would hide that an earlier
// try took effect, are off for writes: [objectstore.Put] repeats them and knows
// its own. Reads are repeated here, a few times within one time-out.
//
// Etags are S3's own, derived from the content unless the bucket encrypts with
// keys of a key management service. Directory buckets (S3 Express) do not list
// in order and can't be used.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/outbound"
)

// Options say where a store is.
type Options struct {
	// Bucket is the bucket's name; required. Nothing is created: a bucket that
	// is not there is an error of every call.
	Bucket string

	// Timeout ends a call that has no answer, with ErrUnavailable; 30s.
	Timeout time.Duration
}

// Store is an objectstore.Store in a bucket. It is safe for concurrent use and
// needs no closing.
type Store struct {
	client  *s3.Client
	bucket  string
	timeout time.Duration
}

var _ objectstore.Store = (*Store)(nil)

const (
	readAttempts = 3
	readMaxPause = 200 * time.Millisecond
	connections  = 64 // kept open while idle: as many as are busy in a take-over
)

// New returns the store that the options and the SDK's environment name. It
// sends no request, so a missing bucket or permission is not found here.
func New(ctx context.Context, opts Options) (*Store, error) {
	if opts.Bucket == "" {
		return nil, errors.New("open S3 store: the bucket has no name")
	}
	pathStyle, err := usePathStyle()
	if err != nil {
		return nil, fmt.Errorf("open S3 store: %w", err)
	}
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = connections
	}).WithDialerOptions(outbound.Bound)
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client), config.WithRetryer(newReadRetryer))
	if err != nil {
		return nil, fmt.Errorf("open S3 store: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("open S3 store: no region: set AWS_REGION (for other stores than Amazon's often us-east-1)")
	}
	if cfg.Credentials != nil {
		cfg.Credentials = credentials{cfg.Credentials}
	}
	s := &Store{bucket: opts.Bucket, timeout: opts.Timeout}
	if s.timeout <= 0 {
		s.timeout = 30 * time.Second
	}
	s.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = pathStyle
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	return s, nil
}

// usePathStyle reads the variable that the SDKs of other languages know.
func usePathStyle() (bool, error) {
	const name = "AWS_S3_USE_PATH_STYLE"
	value := os.Getenv(name)
	if value == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%s is %q, want true or false", name, value)
	}
	return on, nil
}

func newReadRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = readAttempts
		o.MaxBackoff = readMaxPause
	})
}

// once makes the request the only one of its call.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// credentials marks a failure to get credentials as one that may pass: those of
// a role come over the network too.
type credentials struct{ aws.CredentialsProvider }

func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	got, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("%w: credentials: %w", objectstore.ErrUnavailable, err)
	}
	return got, nil
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, key string) (objectstore.Object, error) {
	if err := check(ctx, key); err != nil {
		return objectstore.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.GetObject(callCtx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return objectstore.Object{}, fmt.Errorf("get %s: %w", key, explain(ctx, err))
	}
	defer out.Body.Close()
	data, err := io.ReadAll(out.Body)
	if err != nil {
		return objectstore.Object{}, fmt.Errorf("get %s: read: %w", key, unknown(ctx, err))
	}
	return objectstore.Object{
		Key: key, Data: data, ETag: aws.ToString(out.ETag), Modified: aws.ToTime(out.LastModified),
	}, nil
}

// PutIfAbsent implements objectstore.Store.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	if err := check(ctx, key); err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	etag, err := s.put(ctx, data, &s3.PutObjectInput{Key: &key, IfNoneMatch: aws.String("*")})
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return etag, nil
}

// PutIfMatch implements objectstore.Store.
func (s *Store) PutIfMatch(ctx context.Context, key string, data []byte, etag string) (string, error) {
	if err := check(ctx, key); err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	if etag == "" {
		return "", fmt.Errorf("put %s: the etag is empty", key)
	}
	if matchesSeveral(etag) {
		return "", fmt.Errorf("put %s: %w", key, objectstore.ErrPrecondition)
	}
	next, err := s.put(ctx, data, &s3.PutObjectInput{Key: &key, IfMatch: &etag})
	if errors.Is(err, objectstore.ErrNotFound) { // absent is not the version expected
		err = fmt.Errorf("%w: %w", objectstore.ErrPrecondition, err)
	}
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return next, nil
}

func (s *Store) put(ctx context.Context, data []byte, in *s3.PutObjectInput) (string, error) {
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// A request that was given up may be read from for a moment longer.
	in.Bucket, in.Body = &s.bucket, bytes.NewReader(bytes.Clone(data))
	out, err := s.client.PutObject(callCtx, in, once)
	if err != nil {
		return "", explain(ctx, err)
	}
	if aws.ToString(out.ETag) == "" {
		return "", fmt.Errorf("%w: the answer has no etag", objectstore.ErrUnavailable)
	}
	return *out.ETag, nil
}

// DeleteIfMatch implements objectstore.Store.
func (s *Store) DeleteIfMatch(ctx context.Context, key, etag string) error {
	if err := check(ctx, key); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	if etag == "" {
		return fmt.Errorf("delete %s: the etag is empty", key)
	}
	err := objectstore.ErrPrecondition
	if !matchesSeveral(etag) {
		err = s.delete(ctx, key, etag)
	}
	if errors.Is(err, objectstore.ErrPrecondition) {
		// Some stores say so of an object that is absent, too.
		if _, readErr := s.Get(ctx, key); readErr != nil {
			return fmt.Errorf("delete %s: the condition was refused: %w", key, readErr)
		}
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key, etag string) error {
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.client.DeleteObject(callCtx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key, IfMatch: &etag}, once)
	if err != nil {
		return explain(ctx, err)
	}
	return nil
}

// List implements objectstore.Store. The token is the last key of a page.
func (s *Store) List(ctx context.Context, prefix, pageToken string, limit int) (objectstore.Page, error) {
	if err := objectstore.ValidatePrefix(prefix); err != nil {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, err)
	}
	if err := ctx.Err(); err != nil {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, err)
	}
	if limit <= 0 || limit > objectstore.MaxPage {
		limit = objectstore.MaxPage
	}
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix, MaxKeys: aws.Int32(int32(limit))}
	if pageToken != "" {
		in.StartAfter = &pageToken
	}
	callCtx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.ListObjectsV2(callCtx, in)
	if err != nil {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, explain(ctx, err))
	}
	page, err := pageOf(out)
	if err != nil {
		return objectstore.Page{}, fmt.Errorf("list %q: %w", prefix, err)
	}
	return page, nil
}

// pageOf passes over what no call can reach: folders that a console made, and
// names that are no keys.
func pageOf(out *s3.ListObjectsV2Output) (objectstore.Page, error) {
	var page objectstore.Page
	last := ""
	for _, o := range out.Contents {
		last = aws.ToString(o.Key)
		if objectstore.ValidateKey(last) != nil {
			continue
		}
		page.Objects = append(page.Objects, objectstore.Info{
			Key: last, ETag: aws.ToString(o.ETag), Size: aws.ToInt64(o.Size),
			// Whole seconds, as in the header that Get reads.
			Modified: aws.ToTime(o.LastModified).Truncate(time.Second),
		})
	}
	if aws.ToBool(out.IsTruncated) {
		if last == "" {
			return objectstore.Page{}, fmt.Errorf("%w: an empty page that is not the last", objectstore.ErrUnavailable)
		}
		page.Next = last
	}
	return page, nil
}

// check is what every call on an object begins with.
func check(ctx context.Context, key string) error {
	if err := objectstore.ValidateKey(key); err != nil {
		return err
	}
	return ctx.Err()
}

// matchesSeveral says of an etag that as a condition it would not stand for one
// version: "*" holds for every object, and a comma makes a list.
func matchesSeveral(etag string) bool { return etag == "*" || strings.Contains(etag, ",") }
