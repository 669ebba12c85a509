"""A small shop: its tables, and the columns of runs that it writes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Identity
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """What the shop's alembic compares the database with."""


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    customer: Mapped[str]


class Invoice(Base):
    __tablename__ = "invoices"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"), unique=True)
    run_id: Mapped[int] = mapped_column(BigInteger)


class Run(Base):
    __tablename__ = "run"
    __table_args__ = {"schema": "pgcron"}  # noqa: RUF012

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    handler: Mapped[str]
    args: Mapped[dict[str, Any]] = mapped_column(JSONB)
    delivery: Mapped[str]
