package objectfs

import (
	"bytes"
	"ckpt/internal/durable"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// s3Bucket is a bucket of S3, or of what speaks its protocol.
type s3Bucket struct {
	api  *s3.Client
	name string
}

var _ Bucket = (*s3Bucket)(nil)

// connections is how many a process keeps to a storage.
const connections = 32

// openS3 returns a bucket, with the credentials that the SDK finds: in AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, in the files of AWS_PROFILE, or of the machine.
func openS3(ctx context.Context, l *location) (*s3Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, patienceOnce)
	defer cancel()
	options := []func(*config.LoadOptions) error{
		config.WithLogger(logging.Nop{}), // errors say it all
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost, t.MaxIdleConns = connections, connections
			t.ResponseHeaderTimeout = patience
			t.WriteBufferSize, t.ReadBufferSize = 256<<10, 256<<10
		})),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }), // client repeats
	}
	if l.region != "" {
		options = append(options, config.WithRegion(l.region))
	}
	if l.endpoint != "" { // a storage of somebody else than the machine's
		options = append(options, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the settings of the object storage cannot be read: %w", err)
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	if cfg.Credentials == nil {
		return nil, noCredentials(nil)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, noCredentials(err)
	}
	api := s3.NewFromConfig(cfg, func(o *s3.Options) {
		if l.endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = aws.String(l.endpoint), true
		}
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired // we compute them
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired // images have their own
	})
	return &s3Bucket{api, l.bucket}, nil
}

func noCredentials(err error) error {
	why := "there are no credentials for the object storage: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	if err == nil {
		return errors.New(why)
	}
	return fmt.Errorf("%s: %w", why, err)
}

// markName is the metadata that has the mark of a writer.
const markName = "ckpt-writer"

// classify says which of the errors of a Bucket an answer is.
func classify(key string, err error) error {
	if err == nil {
		return nil
	}
	code, status := "", 0
	if api := smithy.APIError(nil); errors.As(err, &api) {
		code = api.ErrorCode()
	}
	if r := (*awshttp.ResponseError)(nil); errors.As(err, &r) {
		status = r.HTTPStatusCode()
	}
	is := func(kind error) error { return fmt.Errorf("%s: %w: %w", key, kind, err) }
	switch {
	case code == "NoSuchBucket":
		return fmt.Errorf("%w: %w", ErrNoBucket, err)
	case code == "NoSuchKey" || code == "NoSuchUpload" || code == "NotFound": // the last of a HEAD
		return is(fs.ErrNotExist)
	case code == "InvalidAccessKeyId" || code == "XAdminUserNotFound": // of which versitygw says 404
		return is(fs.ErrPermission)
	case status == http.StatusNotFound: // a server that is no object storage has nothing to say of files
		return err
	case status == http.StatusPreconditionFailed:
		return is(ErrPrecondition)
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return is(fs.ErrPermission)
	case status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented:
		return is(errors.ErrUnsupported)
	case status < 300, status >= 500, // no answer, or one that cannot be read
		status == http.StatusTooManyRequests, status == http.StatusConflict, status == http.StatusRequestTimeout,
		code == "BadDigest", code == "XAmzContentChecksumMismatch", code == "IncompleteBody", code == "RequestTimeout":
		return is(ErrTransient)
	}
	return err
}

// dateOf is the clock of the storage.
func dateOf(m middleware.Metadata) time.Time {
	if r, ok := awsmiddleware.GetRawResponse(m).(*smithyhttp.Response); ok {
		if at, err := http.ParseTime(r.Header.Get("Date")); err == nil {
			return at
		}
	}
	return time.Now()
}

func (b *s3Bucket) Head(ctx context.Context, key string) (Object, error) {
	out, err := b.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		return Object{}, classify(key, err)
	}
	return Object{Key: key, Size: aws.ToInt64(out.ContentLength), Tag: aws.ToString(out.ETag), Mark: out.Metadata[markName],
		Modified: aws.ToTime(out.LastModified), Now: dateOf(out.ResultMetadata)}, nil
}

func (b *s3Bucket) Get(ctx context.Context, key string, off, n int64, tag string) (io.ReadCloser, Object, error) {
	in := &s3.GetObjectInput{Bucket: &b.name, Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))}
	if tag != "" {
		in.IfMatch = &tag
	}
	out, err := b.api.GetObject(ctx, in)
	if r := (*awshttp.ResponseError)(nil); errors.As(err, &r) && r.HTTPStatusCode() == http.StatusRequestedRangeNotSatisfiable {
		o, err := b.Head(ctx, key)
		return http.NoBody, o, err
	}
	if err != nil {
		return nil, Object{}, classify(key, err)
	}
	o := Object{Key: key, Size: aws.ToInt64(out.ContentLength), Tag: aws.ToString(out.ETag), Mark: out.Metadata[markName],
		Modified: aws.ToTime(out.LastModified), Now: dateOf(out.ResultMetadata)}
	if _, size, ok := strings.Cut(aws.ToString(out.ContentRange), "/"); ok {
		if o.Size, err = strconv.ParseInt(size, 10, 64); err != nil {
			out.Body.Close()
			return nil, Object{}, fmt.Errorf("%w: it answers with the range %q", ErrTransient, *out.ContentRange)
		}
	}
	return out.Body, o, nil
}

func sumText(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// unsigned spares the digest of a body that has a checksum.
func unsigned(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
}

func (b *s3Bucket) Put(ctx context.Context, key string, body []byte, mark string, c Condition) (Object, error) {
	in := &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(body), Metadata: map[string]string{markName: mark},
		ContentLength: aws.Int64(int64(len(body))), ChecksumCRC32C: aws.String(sumText(durable.Sum(body)))}
	in.IfNoneMatch, in.IfMatch = c.headers()
	out, err := b.api.PutObject(ctx, in, unsigned)
	if err != nil {
		return Object{}, classify(key, err)
	}
	return Object{Key: key, Size: int64(len(body)), Tag: aws.ToString(out.ETag), Mark: mark, Now: dateOf(out.ResultMetadata)}, nil
}

func (c Condition) headers() (none, match *string) {
	if c.New {
		none = aws.String("*")
	}
	if c.Tag != "" {
		match = &c.Tag
	}
	return none, match
}

func (b *s3Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key})
	return classify(key, err)
}

func (b *s3Bucket) List(ctx context.Context, prefix, from string, deep bool, most int) (Page, error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, MaxKeys: aws.Int32(int32(min(most, 1000)))}
	if from != "" {
		in.ContinuationToken = &from
	}
	if !deep {
		in.Delimiter = aws.String("/")
	}
	out, err := b.api.ListObjectsV2(ctx, in)
	if err != nil {
		return Page{}, classify(prefix, err)
	}
	var page Page
	for _, o := range out.Contents {
		page.Objects = append(page.Objects, Object{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), Tag: aws.ToString(o.ETag), Modified: aws.ToTime(o.LastModified)})
	}
	for _, p := range out.CommonPrefixes {
		page.Prefixes = append(page.Prefixes, aws.ToString(p.Prefix))
	}
	if aws.ToBool(out.IsTruncated) {
		page.Next = aws.ToString(out.NextContinuationToken)
	}
	return page, nil
}

func (b *s3Bucket) Begin(ctx context.Context, key, mark string) (string, error) {
	out, err := b.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b.name, Key: &key,
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c, Metadata: map[string]string{markName: mark}})
	if err != nil {
		return "", classify(key, err)
	}
	return aws.ToString(out.UploadId), nil
}

func (b *s3Bucket) Part(ctx context.Context, key, id string, number int, body []byte, sum uint32) (Part, error) {
	out, err := b.api.UploadPart(ctx, &s3.UploadPartInput{Bucket: &b.name, Key: &key, UploadId: &id, PartNumber: aws.Int32(int32(number)),
		Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), ChecksumCRC32C: aws.String(sumText(sum))}, unsigned)
	if err != nil {
		return Part{}, classify(key, err)
	}
	p := Part{Number: number, Tag: aws.ToString(out.ETag), Sum: sum}
	if told := aws.ToString(out.ChecksumCRC32C); told != "" && told != sumText(sum) {
		p.Sum = ^sum // another than was sent
	}
	return p, nil
}

func (b *s3Bucket) Complete(ctx context.Context, key, id string, parts []Part, c Condition) (Object, error) {
	in := &s3.CompleteMultipartUploadInput{Bucket: &b.name, Key: &key, UploadId: &id, MultipartUpload: &types.CompletedMultipartUpload{}}
	for _, p := range parts {
		in.MultipartUpload.Parts = append(in.MultipartUpload.Parts, types.CompletedPart{PartNumber: aws.Int32(int32(p.Number)),
			ETag: aws.String(p.Tag), ChecksumCRC32C: aws.String(sumText(p.Sum))})
	}
	in.IfNoneMatch, in.IfMatch = c.headers()
	out, err := b.api.CompleteMultipartUpload(ctx, in)
	if err != nil {
		return Object{}, classify(key, err)
	}
	return Object{Key: key, Tag: aws.ToString(out.ETag), Now: dateOf(out.ResultMetadata)}, nil
}

func (b *s3Bucket) Abort(ctx context.Context, key, id string) error {
	_, err := b.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.name, Key: &key, UploadId: &id})
	return classify(key, err)
}

func (b *s3Bucket) Uploads(ctx context.Context, prefix string) (all []Upload, err error) {
	in := &s3.ListMultipartUploadsInput{Bucket: &b.name, Prefix: &prefix}
	for {
		out, err := b.api.ListMultipartUploads(ctx, in)
		if err != nil {
			return nil, classify(prefix, err)
		}
		for _, u := range out.Uploads {
			all = append(all, Upload{aws.ToString(u.Key), aws.ToString(u.UploadId), aws.ToTime(u.Initiated)})
		}
		if !aws.ToBool(out.IsTruncated) {
			return all, nil
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
}
