"""Orders and their invoices. The number is the one that everybody begins with."""

import sqlalchemy
from alembic import op

revision = "0001"
down_revision = None
branch_labels = ("shop",)
depends_on = None


def upgrade() -> None:
    big = sqlalchemy.BigInteger
    op.create_table(
        "orders",
        sqlalchemy.Column("id", big, sqlalchemy.Identity(), primary_key=True),
        sqlalchemy.Column("customer", sqlalchemy.String, nullable=False),
    )
    op.create_table(
        "invoices",
        sqlalchemy.Column("id", big, sqlalchemy.Identity(), primary_key=True),
        sqlalchemy.Column(
            "order_id", big, sqlalchemy.ForeignKey("orders.id"), nullable=False, unique=True
        ),
        sqlalchemy.Column("run_id", big, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("invoices")
    op.drop_table("orders")
