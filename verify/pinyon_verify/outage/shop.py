"""The shop, for uvicorn: ``pinyon_verify.outage.shop:app``. The environment has its cache, its database and its terms."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pinyon.aio
from fastapi import FastAPI

HOST, _, PORT = os.environ["SHOP_DATABASE"].rpartition(":")
# Each failure would be a line.
logging.disable(logging.WARNING)
TERMS: dict[str, Any] = json.loads(os.environ["SHOP_TERMS"])
#: The cache has more time than a busy machine needs: only the database fails here.
cache = pinyon.aio.Client(os.environ["SHOP_CACHE"], namespace="shop:", timeout=30, connect_timeout=30)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with cache:
        yield


app = FastAPI(lifespan=lifespan)


@cache.cached("product:{name}", **TERMS)
async def find_product(name: str) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    try:
        writer.write(f"{name}\n".encode())
        row = await reader.readline()
    finally:
        writer.close()
    if not row:
        raise ConnectionError("the database is down")
    found: dict[str, Any] = json.loads(row)
    return found


@app.get("/products/{name}")
async def product(name: str) -> dict[str, Any]:
    return {**await find_product(name), "worker": os.getpid()}
