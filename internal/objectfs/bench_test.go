package objectfs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"ckpt/internal/objectfs"
	"ckpt/internal/testkit"
)

const (
	benchPart  = 8 << 20 // as in objectfs
	benchParts = 16
	benchPiece = 1 << 20 // of a call of a writer or reader
	atOnce     = 3       // parts on their way, as in objectfs
)

// plain is the SDK alone.
type plain struct{ api *s3.Client }

func newPlain(g *testkit.Gateway) plain {
	return plain{s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(g.Endpoint), UsePathStyle: true,
		HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, WriteBufferSize: 256 << 10, ReadBufferSize: 256 << 10}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: testkit.Key, SecretAccessKey: testkit.Secret}, nil
		})})}
}

// write uploads parts, several at a time.
func (p plain) write(ctx context.Context, key string, part []byte) error {
	bucket := aws.String("bucket")
	up, err := p.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: &key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c})
	if err != nil {
		return err
	}
	parts := make([]types.CompletedPart, benchParts)
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range int32(benchParts) {
		g.Go(func() error {
			out, err := p.api.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: &key, UploadId: up.UploadId, PartNumber: aws.Int32(i + 1),
				Body: bytes.NewReader(part), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c}, func(o *s3.Options) {
				o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
			})
			if err == nil {
				parts[i] = types.CompletedPart{PartNumber: aws.Int32(i + 1), ETag: out.ETag, ChecksumCRC32C: out.ChecksumCRC32C}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err = p.api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: bucket, Key: &key, UploadId: up.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
	return err
}

// read gets ranges, several at a time.
func (p plain) read(ctx context.Context, key string) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range benchParts {
		g.Go(func() error {
			out, err := p.api.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: &key,
				Range: aws.String(fmt.Sprintf("bytes=%d-%d", i*benchPart, (i+1)*benchPart-1))})
			if err != nil {
				return err
			}
			defer out.Body.Close()
			_, err = io.ReadFull(out.Body, make([]byte, benchPart))
			return err
		})
	}
	return g.Wait()
}

func ourWrite(f *objectfs.FS, name string, part []byte) error {
	w, err := f.Create(name)
	if err != nil {
		return err
	}
	defer w.Close()
	for at := range benchPart * benchParts / benchPiece {
		off := int64(at * benchPiece)
		if _, err := w.WriteAt(part[off%benchPart:off%benchPart+benchPiece], off); err != nil {
			return err
		}
	}
	return w.Sync()
}

func ourRead(f *objectfs.FS, name string) error {
	r, err := f.Open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range benchParts {
		g.Go(func() error {
			_, err := r.ReadAt(make([]byte, benchPart), int64(i*benchPart))
			if err == io.EOF {
				err = nil
			}
			return err
		})
	}
	return g.Wait()
}

// BenchmarkServer writes and reads 128 MiB through a file system and by the SDK alone, in turns, and
// tells the ratio of the rates: the geometric mean of the pairs, and its 95 % interval.
func BenchmarkServer(b *testing.B) {
	if testkit.Missing("versitygw") != "" {
		b.Skip("skipped: needs versitygw")
	}
	g, err := testkit.StartGateway(b.TempDir(), "bucket")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(g.End)
	b.Setenv("AWS_ACCESS_KEY_ID", testkit.Key)
	b.Setenv("AWS_SECRET_ACCESS_KEY", testkit.Secret)
	bucket, err := objectfs.Connect(testkit.Name(g.Endpoint, "bucket"))
	if err != nil {
		b.Fatal(err)
	}
	f, p := objectfs.New(bucket, root), newPlain(g)
	part := bytes.Repeat([]byte("bytes of a part;"), benchPart/16)
	var ratios [2][]float64 // logarithms
	for i := 0; b.Loop(); i++ {
		ours, theirs := fmt.Sprintf("ours-%d.img", i), fmt.Sprintf("plain-%d.img", i)
		for k, pair := range [2][2]func() error{
			{func() error { return ourWrite(f, root+"/"+ours, part) }, func() error { return p.write(b.Context(), theirs, part) }},
			{func() error { return ourRead(f, root+"/"+ours) }, func() error { return p.read(b.Context(), theirs) }},
		} {
			var spent [2]time.Duration
			for _, who := range [2]int{i % 2, 1 - i%2} { // the first of a pair meets another storage than the second
				runtime.GC()
				begun := time.Now()
				if err := pair[who](); err != nil {
					b.Fatal(err)
				}
				spent[who] = time.Since(begun)
			}
			ratios[k] = append(ratios[k], math.Log(spent[1].Seconds()/spent[0].Seconds()))
		}
	}
	b.ReportMetric(0, "ns/op")
	for k, what := range [2]string{"writes", "reads"} {
		mean, low, high := testkit.Ratio(ratios[k])
		b.ReportMetric(mean, what+"/plain")
		b.ReportMetric(low, what+"/plain-from")
		b.ReportMetric(high, what+"/plain-to")
	}
}
