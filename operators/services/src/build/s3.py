"""Asks for a bucket with the key of this pod: who is refused is not started.

    s3.py ENDPOINT BUCKET
"""

import os
import re
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

endpoint, bucket = sys.argv[1:]
# Amazon's addresses name the region; stores of others do not mind.
region = re.search(r"s3[.-]([a-z0-9-]+)\.amazonaws\.", endpoint)
options = Config(
    connect_timeout=5, read_timeout=10, retries={"max_attempts": 2}, s3={"addressing_style": "path"}
)
store = boto3.client(
    "s3",
    endpoint_url=endpoint,
    region_name=region[1] if region else "us-east-1",
    aws_access_key_id=os.environ["OS_STORE__S3_STORE_ACCESS_KEY"],
    aws_secret_access_key=os.environ["OS_STORE__S3_STORE_SECRET_KEY"],
    config=options,
)
try:
    # As HEAD, but a refusal says why.
    store.list_objects_v2(Bucket=bucket, MaxKeys=1)
except ClientError as error:
    told = error.response.get("Error", {})
    # Glance makes a bucket that is not there with the first image.
    if told.get("Code") not in ("NoSuchBucket", "404"):
        why = f"{told.get('Code')} {told.get('Message') or ''}".strip()
        sys.exit(f"the object store at {endpoint} refuses bucket {bucket}: {why}")
except BotoCoreError as error:
    sys.exit(f"the object store at {endpoint} does not answer: {error}")
