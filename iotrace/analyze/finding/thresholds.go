package finding

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"ckpt/internal/wording"
)

// Thresholds control which findings are reported. The built-in thresholds.yaml
// explains each.
type Thresholds struct {
	GainSeconds        float64 `yaml:"gain_s" json:"gain_s"`
	GainShare          float64 `yaml:"gain_share" json:"gain_share"`
	WarnSeconds        float64 `yaml:"warn_s" json:"warn_s"`
	WarnShare          float64 `yaml:"warn_share" json:"warn_share"`
	HighSeconds        float64 `yaml:"high_s" json:"high_s"`
	HighShare          float64 `yaml:"high_share" json:"high_share"`
	ReferenceRate      float64 `yaml:"reference_bytes_per_s" json:"reference_bytes_per_s"`
	ReferenceTotal     float64 `yaml:"reference_total_bytes_per_s" json:"reference_total_bytes_per_s"`
	ScaleRanks         int64   `yaml:"scale_ranks" json:"scale_ranks"`
	SmallBytes         int64   `yaml:"small_bytes" json:"small_bytes"`
	SmallShare         float64 `yaml:"small_share" json:"small_share"`
	SmallRequests      int64   `yaml:"small_requests" json:"small_requests"`
	LargeBytes         int64   `yaml:"large_bytes" json:"large_bytes"`
	MisalignedShare    float64 `yaml:"misaligned_share" json:"misaligned_share"`
	MisalignedRequests int64   `yaml:"misaligned_requests" json:"misaligned_requests"`
	SharedStripeShare  float64 `yaml:"shared_stripe_share" json:"shared_stripe_share"`
	MetadataTimeShare  float64 `yaml:"metadata_time_share" json:"metadata_time_share"`
	MetadataTimeOps    int64   `yaml:"metadata_time_ops" json:"metadata_time_ops"`
	MetadataPerRequest float64 `yaml:"metadata_per_request" json:"metadata_per_request"`
	MetadataOps        int64   `yaml:"metadata_ops" json:"metadata_ops"`
	StragglerFactor    float64 `yaml:"straggler_factor" json:"straggler_factor"`
	StragglerShare     float64 `yaml:"straggler_share" json:"straggler_share"`
	ImbalanceShare     float64 `yaml:"imbalance_share" json:"imbalance_share"`
	WritersShare       float64 `yaml:"writers_share" json:"writers_share"`
	Writers            int64   `yaml:"writers" json:"writers"`
	RandomShare        float64 `yaml:"random_share" json:"random_share"`
	RandomRequests     int64   `yaml:"random_requests" json:"random_requests"`
	ConcurrencyShare   float64 `yaml:"concurrency_share" json:"concurrency_share"`
	ConcurrencyRanks   int64   `yaml:"concurrency_ranks" json:"concurrency_ranks"`
	BusyShare          float64 `yaml:"busy_share" json:"busy_share"`
	OverlapShare       float64 `yaml:"overlap_share" json:"overlap_share"`
	EncodeFactor       float64 `yaml:"encode_factor" json:"encode_factor"`
	UnencodedSeconds   float64 `yaml:"unencoded_s" json:"unencoded_s"`
	CodecShare         float64 `yaml:"codec_share" json:"codec_share"`
	SyncBytes          int64   `yaml:"sync_bytes" json:"sync_bytes"`
	Syncs              int64   `yaml:"syncs" json:"syncs"`
	LockWaits          int64   `yaml:"lock_waits" json:"lock_waits"`
	TrafficShare       float64 `yaml:"traffic_share" json:"traffic_share"`
	CollectiveRequests int64   `yaml:"collective_requests" json:"collective_requests"`
	ExchangeShare      float64 `yaml:"exchange_share" json:"exchange_share"`
	OneRankShare       float64 `yaml:"one_rank_share" json:"one_rank_share"`
	Reopenings         int64   `yaml:"reopenings" json:"reopenings"`
	StatRequests       int64   `yaml:"stat_requests" json:"stat_requests"`
	SmallFiles         int64   `yaml:"small_files" json:"small_files"`
	SmallFileBytes     int64   `yaml:"small_file_bytes" json:"small_file_bytes"`
	StripeFileBytes    int64   `yaml:"stripe_file_bytes" json:"stripe_file_bytes"`
	STDIOShare         float64 `yaml:"stdio_share" json:"stdio_share"`
	STDIOBytes         int64   `yaml:"stdio_bytes" json:"stdio_bytes"`
}

//go:embed thresholds.yaml
var builtinThresholds []byte

// ThresholdsText returns the YAML of the built-in thresholds, as a template.
func ThresholdsText() []byte { return bytes.Clone(builtinThresholds) }

// ReadThresholds reads thresholds from YAML. Missing keys have the built-in value.
// Errors name the line or the key.
func ReadThresholds(r io.Reader) (*Thresholds, error) {
	t := Default()
	text, err := io.ReadAll(io.LimitReader(r, wording.MaxBytes+1))
	if err == nil {
		err = t.decode(text)
	}
	if err != nil {
		return nil, fmt.Errorf("thresholds: %w", err)
	}
	return t, nil
}

// Default returns the built-in thresholds.
func Default() *Thresholds {
	t := new(Thresholds)
	if err := t.decode(builtinThresholds); err != nil {
		panic("finding: built-in thresholds: " + err.Error())
	}
	return t
}

func (t *Thresholds) decode(text []byte) error {
	if err := wording.DecodeYAML(text, t); err != nil && !errors.Is(err, wording.ErrEmpty) {
		return err
	}
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("yaml")
		var x float64
		if f := v.Field(i); f.CanFloat() {
			x = f.Float()
		} else {
			x = float64(f.Int())
		}
		switch {
		case !(x >= 0) || math.IsInf(x, 0):
			return fmt.Errorf("%s: %v: not a number from 0", key, x)
		case strings.HasSuffix(key, "_share") && x > 1:
			return fmt.Errorf("%s: %v: not a share from 0 to 1", key, x)
		}
	}
	if t.LargeBytes < t.SmallBytes {
		return fmt.Errorf("large_bytes: %d: less than small_bytes", t.LargeBytes)
	}
	return nil
}
